# frozen_string_literal: true

# Where log lines go: makes an output from its settings. Called by the server for each entry of
# `logs` and for `default_log`. Every output has the same methods (see Output below), so that the
# committer does not care which it has.

require "gyre/log/limits"
require "gyre/log/output/access"
require "gyre/log/output/file"
require "gyre/log/output/late"
require "gyre/log/output/redis"
require "gyre/log/output/remote"
require "gyre/log/output/socket"
require "gyre/log/output/spilling"
require "gyre/log/output/descriptor"
require "gyre/log/output/rotation"
require "gyre/net/values"

module Gyre
  module Log
    # What each output does:
    #
    #   prepare               gets ready to write, however long that takes
    #   write(data, clients)  writes all of it, however long that takes; clients: {client id => last sequence number in data}.
    #                         Afterwards, with clients after sync, data gets other bytes: it must not be kept
    #   sync                  returns when all that was written is durable; never holds up the loop
    #   reopen  close         HUP, false when the former file is still written to; the end. A file also has reopen_soon, for a HUP in
    #                         the middle of a write
    #   stored_by(client id)  the last sequence number of a client's that is stored: what it need not send again; as it is now, raises
    #                         Unavailable when that cannot be asked
    #   shared?               whether clients may have stored something through other servers meanwhile
    #   format                :text, :json or :redis: what its sink makes; sink_options: that, and what else Ingest#sink needs
    #   trouble               nil, or why it cannot write at the moment; status: that, and how much is spilled
    #   rest(s)  resume       before an end, and when there is none after all
    #   to_s                  its name
    module Output
      STANDARD = /\A(?:-|stdout|stderr)\z/i.freeze
      TYPES = %w[file socket redis stdout stderr].freeze
      FORMATS = %w[text json].freeze
      # What becomes of messages for one whose queue is full.
      WHEN_FULL = %w[block drop spill].freeze
      private_constant :STANDARD

      class << self
        # @param settings [Hash] keys are Symbols or Strings: type (file, stdout, stderr, socket,
        #   redis; by default what `logfile` looks like), logfile (a path, STDOUT, STDERR,
        #   tcp://host:port, unix:///path, redis://…), format (text, json), rotate (see
        #   Rotation.from), mode, owner (of a file, see Access), options (for socket: [port], as
        #   Analogger has it; for redis: stream, max_length, shared), when_full, spill (a folder for
        #   what the output does not take in time, see Spilling), spill_bytes_limit
        # @param key [String] the configuration's word for it, for messages
        # @param report [#call, nil] is given messages about the output's troubles
        # @return [File, Late, Descriptor, Socket, Redis, Spilling]
        # @raise [ArgumentError] when the settings are wrong or the file cannot be opened; names the
        #   key
        def open(settings, key: "logfile", report: nil)
          settings = settings.to_h { |name, value| [name.to_sym, value] }
          spill_mistake(settings) { |name, text| raise ArgumentError, "#{name}: #{text}" }
          format = Values.check(FORMATS, settings[:format] || "text", name: "format")
          output = plain(settings, target(settings), { format: format.to_sym, report: report })
          settings[:spill] ? spilling(output, settings, report) : output
        rescue ArgumentError => error
          raise ArgumentError, "#{key}: #{error.message}"
        end

        # What has a file has a disk: nothing would be gained by a spill, and its promise lost that
        # no line comes twice.
        #
        # @param settings [Hash{Symbol => Object}] as {open} takes them
        # @yieldparam name [Symbol] the one of when_full and spill that is wrong
        # @yieldparam text [String] what is wrong with it
        def spill_mistake(settings)
          if settings[:when_full].to_s != "spill"
            yield :spill, "counts with when_full: spill only" if settings[:spill]
          elsif file_at?(settings)
            yield :when_full, "spill is for sockets, pipes and Redis; a log file is on a disk already: choose block or drop"
          elsif !settings[:spill]
            yield :when_full, "spill needs spill: a folder of its own"
          end
        end

        # @param output [Output]
        # @return [Boolean] whether it is a file, which others may rename
        def file?(output) = [File, Late].include?(output.class)

        private

        def plain(settings, target, common)
          case type(settings, target)
          when "stdout" then standard($stdout, "STDOUT", common)
          when "stderr" then standard($stderr, "STDERR", common)
          when "socket" then Socket.new(Remote.socket_address(target, settings[:options]), **common) # Analogger's: host, and port as the option
          when "redis" then redis(settings, target, common[:report])
          else file(settings, target, common)
          end
        end

        def spilling(output, settings, report)
          limit = settings[:spill_bytes_limit] || Limits::TABLE.find { |row| row.name == :spill_bytes_limit }.default
          spilling = Spilling.new(output, Spill.new(settings[:spill], format: output.format, limit: limit, report: report))
        ensure
          output.close unless spilling
        end

        def target(settings)
          target = settings[:logfile].to_s
          ["", "-"].include?(target) ? "STDOUT" : target
        end

        # Also one that is not there yet.
        def file_at?(settings)
          target = target(settings)
          type(settings, target) == "file" && (!::File.exist?(target) || ::File.file?(target))
        end

        def type(settings, target)
          given = settings[:type].to_s
          given = Values.check(TYPES, given, name: "type") unless given.empty?
          return given if given.start_with?("std")
          return target.downcase if target.match?(STANDARD)
          return given unless given.empty?

          Remote.type(target) || "file"
        end

        # A descriptor of our own number, so that closing it closes nothing of the program's.
        def standard(stream, name, common)
          Descriptor.new(IO.for_fd(stream.fileno, "wb", autoclose: false), name: name, **common)
        end

        def redis(settings, target, report)
          options = settings[:options].is_a?(Hash) ? settings[:options].to_h { |name, value| [name.to_s, value] } : {}
          unknown = (options.keys - Remote::REDIS_OPTIONS).first
          raise ArgumentError, "options.#{unknown}: there is no such key; there are: #{Remote::REDIS_OPTIONS.join(", ")}" if unknown

          Redis.new(Remote.redis_address(target), stream: options.fetch("stream", Redis::STREAM).to_s, max_length: options["max_length"],
                                                  shared: options["shared"] == true, report: report)
        end

        def file(settings, path, common)
          Access.place(path)
          return Descriptor.open(path, **common) if ::File.exist?(path) && !::File.file?(path)

          # A symlink stays one: what rotates is the file that it leads to.
          path = ::File.realdirpath(path) if settings[:rotate] && ::File.symlink?(path)
          access = Access.new(mode: settings[:mode], owner: settings[:owner])
          file_or_late(path, common) do
            File.new(path, access: access, rotation: Rotation.from(settings[:rotate], path, report: common[:report]), **common)
          end
        rescue SystemCallError => error
          raise ArgumentError, "cannot write to #{path}: #{SystemCallError.new(nil, error.errno).message}"
        end

        def file_or_late(path, common, &open_file)
          yield
        rescue *Late::ERRORS => error
          Late.new(path, error, **common, &open_file)
        end
      end
    end
  end
end
