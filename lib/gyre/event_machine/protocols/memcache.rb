# frozen_string_literal: true

# Memcache: memcached's text protocol. Callbacks run in the order of the commands. Reconnects one
# second after the connection is lost.
require "gyre/event_machine/protocols/lines"

module Gyre
  module EventMachine
    module Protocols
      # A client of one memcached. Gyre::Memcached::Client does more and needs no callbacks.
      module Memcache
        include Deferrable
        include LineText2

        # The server's answer does not follow the protocol.
        class ParserError < StandardError; end

        # @return [Memcache]
        def self.connect(host = "localhost", port = 11_211) = EventMachine.connect(host, port, self, host, port)

        # @param host [String]
        # @param port [Integer]
        def initialize(host, port = 11_211)
          super()
          @host = host
          @port = port
        end

        # @param keys [Array<String, Symbol>]
        # @yieldparam values [Array<String, nil>] in the order of the keys
        def get(*keys, &block)
          raise ArgumentError, "a block takes the values" unless block

          keys.map! { |key| clean(key) }
          command("get #{keys.join(" ")}\r\n") { |_| block.call(*@values.values_at(*keys)) }
        end

        # @param keys [Array<String, Symbol>]
        # @yieldparam values [Hash] by the given keys
        def get_hash(*keys) = get(*keys) { |*values| yield keys.zip(values).to_h }

        # @param key [String, Symbol]
        # @param value [#to_s]
        # @param expiry [Integer] seconds; 0: never
        # @yieldparam stored [Boolean]
        def set(key, value, expiry = 0, &block)
          value = value.to_s
          command("set #{clean(key)} 0 #{expiry} #{value.bytesize}#{" noreply" unless block}\r\n#{value}\r\n", &block)
        end

        # @param key [String, Symbol]
        # @yieldparam deleted [Boolean]
        def delete(key, _expiry = 0, &block) = command("delete #{clean(key)} 0#{" noreply" unless block}\r\n", &block)
        alias del delete

        # Called by the reactor.
        def connection_completed
          @pending = []
          @values = {}
          @connected = true
          @reconnecting = false
          set_line_mode
          succeed
        end

        # @param line [String]
        def receive_line(line)
          case line
          when "END" then answer
          when "STORED", "DELETED" then answer(true)
          when /\AVALUE (\S+) \d+ (\d+)/
            @key = $1
            set_text_mode($2.to_i + 2)
          when "NOT_STORED", "NOT_FOUND", "ERROR", /\A(?:CLIENT|SERVER)_ERROR/ then answer(false)
          else raise ParserError, "unknown answer of memcached: #{line}"
          end
        end

        # @param data [String] a value and its line end
        def receive_binary_data(data) = @values[@key] = data.byteslice(0, data.bytesize - 2)

        # Fails pending commands. Later commands wait for the next connection.
        def unbind
          raise "memcached at #{@host}:#{@port} does not answer" unless @connected || @reconnecting

          @deferred_status = nil
          @connected = false
          @reconnecting = true
          @lt2_rest = nil
          @values.clear
          answer(false) until @pending.empty?
          EventMachine.add_timer(1) { reconnect(@host, @port) }
        end

        private

        def command(bytes, &block)
          return callback { command(bytes, &block) } unless @connected

          @pending << block if block
          send_data(bytes)
        end

        def clean(key) = key.to_s.tr(" \t\r\n\f\v\0", "_")

        def answer(outcome = nil)
          @pending.shift.call(outcome)
        ensure
          @values.clear
        end
      end
    end
  end
end
