# frozen_string_literal: true

# Makes an output for log lines from its settings, for each entry of `logs` and for `default_log`.

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
    module Output
      class << self
        # Opens an output; SETTINGS describes `settings`. Raises ArgumentError that names `key`, the
        # configuration's word for the output.
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

        # Disables autoclose, so that garbage collection does not close the program's stream.
        def standard(stream, name, common) = Descriptor.new(IO.for_fd(stream.fileno, "wb", autoclose: false), name: name, **common)

        def redis(settings, target, report)
          Redis.new(Remote.redis_address(target), **REDIS_SETTINGS.complete(settings[:options] || {}), report: report)
        end

        def file(settings, path, common)
          Access.place(path)
          return Descriptor.open(path, **common) if ::File.exist?(path) && !::File.file?(path)

          # Resolves a symlink, so that rotation renames the target and keeps the link.
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
