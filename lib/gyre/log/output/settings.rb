# frozen_string_literal: true

# The kinds of outputs, which are the classes of output/*_output.rb, and settings of one output, for
# Output.open and entries of `logs`.

require "gyre/settings"

Dir.children(__dir__).grep(/_output\.rb\z/).sort.each { |name| require "gyre/log/output/#{name.delete_suffix(".rb")}" }

module Gyre
  module Log
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
      end
    end
  end
end
