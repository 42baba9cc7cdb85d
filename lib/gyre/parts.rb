# frozen_string_literal: true

# Loads a part of Gyre when a program first names one of its constants, so that `require "gyre"` (a
# Gemfile's line) is enough. Extends Gyre and the modules of its parts. Ruby's autoload alone would
# not do: a part's inner files reopen its modules, and may be loaded first.

require "monitor"
require "gyre/ractor"

module Gyre
  # @api private
  module Parts
    FEATURES = {
      "Gyre" => {
        Async: "gyre/async", Broadcast: "gyre/broadcast", DNS: "gyre/dns",
        EventMachine: "gyre/event_machine", HTTP: "gyre/http/client", Live: "gyre/live", Log: "gyre/log",
        Memcached: "gyre/memcached", Profile: "gyre/profile", RackUpgrade: "gyre/rack_upgrade", SSE: "gyre/sse", Testing: "gyre/testing",
        Web: "gyre/web", WebSocket: "gyre/websocket"
      },
      "Gyre::DNS" => { DigText: "gyre/dns/dig_text", HTTPS: "gyre/dns/https", ZoneFile: "gyre/dns/zone_file" },
      "Gyre::HTTP" => {
        Client: "gyre/http/client", RequestCut: "gyre/http/errors", RequestError: "gyre/http/errors",
        RequestTimeout: "gyre/http/errors", Server: "gyre/http/server", Static: "gyre/http/static", WriteTimeout: "gyre/http/errors"
      },
      "Gyre::Log" => { Client: "gyre/log/client", Entry: "gyre/log/entry", Server: "gyre/log/server", Viewer: "gyre/log/viewer" },
      "Gyre::SSE" => { Client: "gyre/sse/client" }
    }.each_value(&:freeze).freeze
    # A Ractor's threads load one part at a time: parts require each other.
    def self.lock = Ractor.current[:gyre_parts] ||= Monitor.new
    lock # before there are threads

    # Returns a module whose methods load the feature that replaces them, at their first call.
    def self.unloaded(feature, *names)
      Module.new do
        names.each do |name|
          define_method(name) do |*arguments, **options, &block|
            require feature
            public_send(name, *arguments, **options, &block)
          end
        end
      end
    end

    # Registers an autoload only now, when the program names the constant: other threads then wait
    # until the part is loaded whole.
    # @raise [LoadError] if the part needs a gem that is missing
    def const_missing(constant)
      feature = FEATURES.dig(name, constant) or return super

      Parts.lock.synchronize do
        autoload(constant, feature)
        const_get(constant)
      end
    end
  end
end
