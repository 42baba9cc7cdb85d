# frozen_string_literal: true

# `gyre log reopen`: makes a server reopen files like HUP, and waits, as logrotate then compresses
# renamed files.

require "gyre/cli/log"
require "gyre/cli/log/target"

module Gyre
  module CLI
    module Log
      class Reopen < Command
        BANNER = <<~TEXT
          Has a log server write everything and reopen its files, as HUP does, and
          waits until it has. Then what was renamed may be compressed or removed.

          Usage: gyre log reopen [options]
        TEXT
        WITHIN_S = 60

        def initialize(**streams)
          super
          @target = Target.new
          @within_s = WITHIN_S
        end

        def flags
          Flags.new(BANNER) do |flags|
            @target.declare(flags)
            flags.separator "\nHow:"
            flags.on("--within SECONDS", "how long to wait for it (#{WITHIN_S})") { |value| @within_s = SECONDS.check(value) }
          end
        end

        def call(words)
          refuse_words(words)
          @target.viewer.reopen(within_s: @within_s)
          DONE
        rescue SystemCallError, SocketError, EOFError, Gyre::Log::Denied, Gyre::Log::Incompatible, ProtocolError => error
          raise StartError, @target.explain(error)
        end
      end
    end
  end
end
