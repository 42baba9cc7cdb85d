# frozen_string_literal: true

# Memcache: memcached's text protocol; callbacks in the order of commands. Reconnects a second after
# a loss.

module Gyre
  module EventMachine
    module Protocols
      # A client of one memcached. Gyre::Memcached::Client does more, without callbacks.
      module Memcache
        include Deferrable

        # Not an answer of the protocol.
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
          command("get #{keys.join(" ")}\r\n", keys.size == 1 ? [block] : [block, {}, keys])
        end

        # @param keys [Array<String, Symbol>]
        # @yieldparam values [Hash] by the given keys
        def get_hash(*keys)
          raise ArgumentError, "a block takes the values" unless block_given?

          get(*keys) { |*values| yield keys.zip(values).to_h }
        end

        # @param key [String, Symbol]
        # @param value [#to_s]
        # @param expiry [Integer] seconds; 0: never
        # @yieldparam stored [Boolean]
        def set(key, value, expiry = 0, &block)
          value = value.to_s
          command("set #{clean(key)} 0 #{expiry} #{value.bytesize}#{" noreply" unless block}\r\n#{value}\r\n", (block && [block, false]))
        end

        # @param key [String, Symbol]
        # @yieldparam deleted [Boolean]
        def delete(key, _expiry = 0, &block)
          command("delete #{clean(key)} 0#{" noreply" unless block}\r\n", (block && [block, false]))
        end
        alias del delete

        # Called by the reactor.
        def connection_completed
          @pending = []
          @rest = nil
          @connected = true
          @reconnecting = false
          succeed
        end

        # @param data [String]
        def receive_data(data)
          data = @rest << data if @rest
          @rest = nil
          at = 0
          while ending = data.index("\r\n", at)
            after = data.getbyte(at) == 86 ? value(data, at, ending) : ending + 2 # V: VALUE
            break unless after

            from = at
            at = after
            answer(data, from, ending - from) unless data.getbyte(from) == 86
          end
        ensure
          @rest = data.byteslice(at..) if at < data.bytesize
        end

        # Fails commands under way; later ones wait for the next connection.
        def unbind
          raise "memcached at #{@host}:#{@port} does not answer" unless @connected || @reconnecting

          @deferred_status = nil
          @connected = false
          @reconnecting = true
          lost = @pending
          @pending = []
          lost.each { |entry| entry[2] ? call_back(entry, {}) : entry[0].call(entry[1] && false) }
          EventMachine.add_timer(1) { reconnect(@host, @port) }
        end

        private

        # An entry: a callback and its value; for several keys, the values so far and the keys.
        def command(bytes, entry)
          return callback { command(bytes, entry) } unless @connected

          @pending << entry if entry
          send_data(bytes)
        end

        def clean(key)
          key = key.to_s
          key.match?(/[\s\0]/) ? key.gsub(/[\s\0]/, "_") : key
        end

        # Reads "VALUE key flags bytes" and the value; nil unless the value is complete.
        def value(data, at, ending)
          sizes = data.rindex(" ", ending - 1)
          bytes = data.byteslice(sizes + 1, ending - sizes - 1).to_i
          after = ending + bytes + 4
          return if data.bytesize < after

          entry = @pending[0]
          text = data.byteslice(ending + 2, bytes)
          entry[2] ? entry[1][data.byteslice(at + 6, data.index(" ", at + 6) - at - 6)] = text : entry[1] = text
          after
        end

        def answer(data, at, size)
          case data.getbyte(at)
          when 69, 67 # END; ERROR, CLIENT_ERROR
            entry = @pending.shift
            entry[2] ? call_back(entry, entry[1]) : entry[0].call(entry[1])
          when 83 then @pending.shift[0].call(size == 6) # STORED; SERVER_ERROR
          when 68, 78 then @pending.shift[0].call(data.getbyte(at) == 68) # DELETED; NOT_FOUND, NOT_STORED
          else raise ParserError, "unknown answer of memcached: #{data.byteslice(at, size)}"
          end
        end

        def call_back(entry, values) = entry[0].call(*values.values_at(*entry[2]))
      end
    end
  end
end
