# frozen_string_literal: true

# Makes an output for log lines from its settings, for each entry of `logs` and for `default_log`.

require "gyre/log/limits"
require "gyre/log/output/spilling"

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
