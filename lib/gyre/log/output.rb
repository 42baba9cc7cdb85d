# frozen_string_literal: true

# The kinds of outputs, which are the classes of output/*_output.rb, and the settings of one output.
# Makes an output for log lines from its settings, for each entry of `logs` and for `default_log`.

require "gyre/log/limits"
require "gyre/log/output/spilling"

Dir.children("#{__dir__}/output").grep(/_output\.rb\z/).sort.each { |name| require "gyre/log/output/#{name.delete_suffix(".rb")}" }

module Gyre
  module Log
    # --- methods of each output ---
    #
    #   prepare               gets ready to write; may block
    #   write(data, clients)  writes all, keeps no data; may block; clients: {id => last number}
    #   sync                  returns when all written bytes are durable; never blocks the loop
    #   reopen                called for HUP; returns false if the former file stays in use
    #   reopen_soon           called for HUP during a write; only files have it
    #   close                 called at the end
    #   stored_by(client id)  a client's last stored sequence number; raises Unavailable until known
    #   format                :text, :json or :redis;  sink_options: for Ingest#sink
    #   trouble               why the output cannot write now, or nil;  status: also spilled bytes
    #   rest(s)               called before the server ends
    #   resume                called if the end is cancelled
    #   to_s                  its name
    #
    # --- of each class ---
    #
    #   NAMES, SCHEMES           values of `type`, and schemes of addresses; nil: of paths
    #   EXAMPLES, OPTIONS_TEXT   of targets and `options`, for --help and guide; the latter may be nil
    #   NO_SPILL                 why it cannot spill, or nil
    #   from(target, settings, **common)  returns an output
    #   parse(target)            raises ArgumentError for a wrong address
    #   check(target, options, faults)  adds faults of the settings
    module Output
      KINDS = constants.grep(/Output\z/).sort.map { |name| const_get(name) }.freeze
      SCHEME = %r{\A([a-z][a-z0-9+.-]*)://}i.freeze

      type = Gyre::Settings::Type
      row = Gyre::Settings.method(:row)

      # A path, an address or a standard stream.
      DESTINATION = type.new("PATH", "a path, STDOUT or STDERR") do |value|
        next unless value.is_a?(String) && !value.empty?
        stream = StreamOutput.standard(value)
        Output.kind_at(value).parse(value) unless stream
        stream || value
      end

      options = type.new("OPTIONS", "as the kind of output has them") { |value| value.is_a?(Hash) ? value : Array(value) }

      FILE_ROWS = [row[:format, %w[text json], "how a line is written", default: "text"], *FileOutput::ROWS].freeze

      RULE = lambda do |values, faults|
        kind = Output.kind(values)
        kind.check(Output.target(values), values[:options], faults)
        if values[:when_full] != "spill"
          faults.add("spill", "counts with when_full: spill only") if values[:spill]
        elsif kind::NO_SPILL || !values.key?(:spill)
          faults.add("when_full", kind::NO_SPILL || "spill needs spill: a folder of its own")
        end
      end

      SETTINGS = Gyre::Settings.new({ nil => [
        row[:logfile, DESTINATION, KINDS.map { |kind| kind::EXAMPLES }.join("; ")],
        row[:type, KINDS.flat_map { |kind| kind::NAMES }, "kind of output", usual: "from logfile"],
        row[:options, options, KINDS.filter_map { |kind| kind::OPTIONS_TEXT }.join("; ")],
        row[:when_full, %w[block drop spill],
            "if its queue is full: senders wait, messages are dropped and counted, or go to disk", default: "block"],
        row[:spill, :text, "folder for when_full: spill, made if missing"],
        *FILE_ROWS
      ] }, what: "key", &RULE)

      class << self
        # Opens an output; SETTINGS describes `settings`. Raises ArgumentError that names `key`, the
        # configuration's word for the output.
        def open(settings, key: "logfile", report: nil, spill_bytes_limit: Limits.new.spill_bytes_limit)
          settings = SETTINGS.complete(settings.reject { |_, value| value == "" })
          target = target(settings)
          output = kind(settings).from(target, settings, format: settings[:format].to_sym, report: report)
          settings[:spill] ? spilling(output, settings[:spill], report, spill_bytes_limit) : output
        rescue ArgumentError => error
          raise ArgumentError, "#{key}: #{error.message}"
        rescue SystemCallError => error
          raise ArgumentError, "#{key}: cannot write to #{target}: #{SystemCallError.new(nil, error.errno).message}"
        end

        # Returns the class of these settings' output; StreamOutput for a path of a device or pipe.
        def kind(settings)
          type, target = settings[:type].to_s, target(settings)
          return StreamOutput if type.start_with?("std") || StreamOutput.standard(target)

          kind = type.empty? ? kind_at(target) : KINDS.find { |each| each::NAMES.include?(type) }
          kind == FileOutput && File.exist?(target) && !File.file?(target) ? StreamOutput : kind
        end

        def kind_at(target)
          scheme = target[SCHEME, 1]
          KINDS.find { |kind| kind::SCHEMES.include?(scheme) } or
            raise ArgumentError, "nothing can be written to #{scheme}://; there are: " \
                                 "#{KINDS.flat_map { |kind| kind::SCHEMES }.compact.map { |name| "#{name}://" }.join(", ")}"
        end

        def target(settings)
          target = settings[:logfile].to_s
          ["", "-"].include?(target) ? "STDOUT" : target
        end

        # True for an address, a standard stream or no target.
        def elsewhere?(target) = target.empty? || target.match?(SCHEME) || !StreamOutput.standard(target).nil?

        # Returns equal values for all names of one file.
        def same_file(target)
          elsewhere?(target) ? target : File.realdirpath(target)
        rescue SystemCallError # no such folder
          File.expand_path(target)
        end

        private

        def spilling(output, folder, report, limit)
          spilling = Spilling.new(output, Spill.new(folder, format: output.format, limit: limit, report: report))
        ensure
          output.close unless spilling
        end
      end
    end
  end
end
