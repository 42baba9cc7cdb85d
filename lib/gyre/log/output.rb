# frozen_string_literal: true

# Makes an output for log lines from its settings. Called by the server for each entry of `logs`,
# and for `default_log`. Every output has the same methods (see Output below).

require "gyre/log/limits"
require "gyre/log/output/access"
require "gyre/log/output/file"
require "gyre/log/output/redis"
require "gyre/log/output/remote"
require "gyre/log/output/socket"
require "gyre/log/output/spilling"
require "gyre/log/output/descriptor"
require "gyre/log/output/rotation"
require "gyre/log/output/settings"

module Gyre
  module Log
    # Methods of each output:
    #
    #   prepare               gets ready to write, however long that takes
    #   write(data, clients)  writes all of it, however long that takes; clients: {client id => last sequence number in data}.
    #                         Afterwards, with clients after sync, data gets other bytes: it must not be kept
    #   sync                  returns when all that was written is durable; never holds up the loop
    #   reopen  close         HUP, false when the former file is still written to; the end. A file also has reopen_soon, for a HUP in
    #                         the middle of a write
    #   stored_by(client id)  the last sequence number of a client's that is stored: what it need not send again; raises Unavailable
    #                         until that is known
    #   format                :text, :json or :redis: what its sink makes; sink_options: that, and what else Ingest#sink needs
    #   trouble               nil, or why it cannot write at the moment; status: that, and how much is spilled
    #   rest(s)  resume       before an end, and when there is none after all
    #   to_s                  its name
    module Output
      class << self
        # `settings` come from SETTINGS; `key` is the configuration's name for them. Raises
        # ArgumentError naming the key.
        def open(settings, key: "logfile", report: nil, spill_bytes_limit: Limits.new.spill_bytes_limit)
          settings = SETTINGS.complete(settings.reject { |_, value| value == "" })
          output = plain(settings, target(settings), { format: settings[:format].to_sym, report: report })
          settings[:spill] ? spilling(output, settings, report, spill_bytes_limit) : output
        rescue ArgumentError => error
          raise ArgumentError, "#{key}: #{error.message}"
        end

        private

        def plain(settings, target, common)
          case type(settings)
          when "stdout" then standard($stdout, "STDOUT", common)
          when "stderr" then standard($stderr, "STDERR", common)
          when "socket" then Socket.new(Remote.socket_address(target, settings[:options]), **common) # Analogger's: host, and port as the option
          when "redis" then redis(settings, target, common[:report])
          else file(settings, target, common)
          end
        end

        def spilling(output, settings, report, limit)
          spilling = Spilling.new(output, Spill.new(settings[:spill], format: output.format, limit: limit, report: report))
        ensure
          output.close unless spilling
        end

        # Duplicates the stream, so that closing the output leaves the program's stream open.
        def standard(stream, name, common)
          Descriptor.new(IO.for_fd(stream.fileno, "wb", autoclose: false), name: name, **common)
        end

        def redis(settings, target, report)
          Redis.new(Remote.redis_address(target), **REDIS_SETTINGS.complete(settings[:options] || {}), report: report)
        end

        def file(settings, path, common)
          Access.place(path)
          return Descriptor.open(path, **common) if ::File.exist?(path) && !::File.file?(path)

          # Keeps a symlink: rotation renames its target.
          path = ::File.realdirpath(path) if settings[:rotate] && ::File.symlink?(path)
          access = Access.new(mode: settings[:mode], owner: settings[:owner])
          File.new(path, access: access, rotation: Rotation.from(settings[:rotate], path, report: common[:report]), **common)
        rescue SystemCallError => error
          raise ArgumentError, "cannot write to #{path}: #{SystemCallError.new(nil, error.errno).message}"
        end
      end
    end
  end
end
