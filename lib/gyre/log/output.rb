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
    #   prepare               gets ready to write; may take long
    #   write(data, clients)  writes all; may take long; clients: {client id => last sequence number in data}; does not keep data
    #   sync                  returns when all written bytes are durable; never blocks the loop
    #   reopen  close         for HUP (false if it keeps the former file); the end; a file has reopen_soon for a HUP during a write
    #   stored_by(client id)  the last stored sequence number of a client; raises Unavailable until known
    #   format                :text, :json or :redis;  sink_options: for Ingest#sink
    #   trouble               nil, or why it cannot write now;  status: the same, and spilled bytes
    #   rest(s)  resume       before an end; when the end was cancelled
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

        # Disables autoclose, so that closing an output does not close the program's stream.
        def standard(stream, name, common) = Descriptor.new(IO.for_fd(stream.fileno, "wb", autoclose: false), name: name, **common)

        def redis(settings, target, report)
          Redis.new(Remote.redis_address(target), **REDIS_SETTINGS.complete(settings[:options] || {}), report: report)
        end

        def file(settings, path, common)
          Access.place(path)
          return Descriptor.open(path, **common) if ::File.exist?(path) && !::File.file?(path)

          # Keeps a symlink, because rotation renames only its target.
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
