# frozen_string_literal: true

# `gyre log reopen`: makes a server reopen its files, like HUP. Waits until that is done, because
# logrotate then compresses the renamed files.

require "gyre/cli/log/target"

module Gyre
  module CLI
    module Log
      class Reopen < Asking
        BANNER = <<~TEXT
          Has a log server write everything and reopen its files, as HUP does, and
          waits until it has. Then what was renamed may be compressed or removed.

          Usage: gyre log reopen [options]
        TEXT
        WITHIN_S = 60

        def call(words)
          refuse_words(words)
          @target.viewer.reopen(within_s: @within_s || WITHIN_S)
          DONE
        rescue SystemCallError, SocketError, EOFError, Gyre::Log::Denied, Gyre::Log::Incompatible, ProtocolError => error
          raise StartError, @target.explain(error)
        end

        private

        def own_flags(flags)
          flags.on("--within SECONDS", "how long to wait for it (#{WITHIN_S})") { |value| @within_s = SECONDS.check(value) }
        end
      end
    end
  end
end
