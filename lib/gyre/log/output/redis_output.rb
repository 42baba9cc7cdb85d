# frozen_string_literal: true

# Writes to a Redis Stream. Several servers may add to a stream, and groups of consumers read it.
# Made by Output.open. The output's sink makes the XADD commands (Ingest, format :redis).
#
#   MULTI
#     XADD stream * …                        each line of the batch
#     XTRIM stream MAXLEN ~ n                if max_length is set
#     HSET {stream}:clients id "seq time" …  acknowledged clients' sequence numbers
#     SET {stream}:writer:<ours> n EX …      the batch's number at this server
#   EXEC
#
# Redis executes either all or none of these commands. After a broken connection, the batch's number
# shows whether the batch arrived. Acknowledgements survive a crash of Redis' machine only with
# `appendonly yes` and `appendfsync always`.

require "gyre/log/output/defaults"
require "gyre/redis/connection"
require "gyre/settings"
require "securerandom"

module Gyre
  module Log
    module Output
      class RedisOutput
        include Defaults

        Wire = Gyre::Redis::Wire
        private_constant :Wire

        NAMES = %w[redis].freeze
        SCHEMES = %w[redis rediss redis+unix].freeze
        EXAMPLES = "redis://host:port/0, rediss:// with TLS"
        STREAM = "gyre"
        OPTIONS = Gyre::Settings.new({ nil => [
          Gyre::Settings.row(:stream, :text, "name of the stream", default: STREAM),
          Gyre::Settings.row(:max_length, :count, "approximate number of entries kept")
        ] }, what: "key")
        OPTIONS_TEXT = "for Redis #{OPTIONS.words.join(", ")}"
        WRITER_KEPT_S = 24 * 3600
        # Seconds after which an absent client is forgotten, as in a journal.
        FORGET_AFTER_S = 30 * 24 * 3600
        FORGOTTEN_EVERY_S = 24 * 3600

        class << self
          # Takes an address, a host or a path.
          def parse(target) = Gyre::Redis::Address.parse(url(target))

          def check(target, options, faults)
            faults.at("logfile") { parse(target) }
            return faults.add("options", "Redis has #{OPTIONS.words.join(", ")}, as keys with values") if options.is_a?(Array)

            faults.at("options") { OPTIONS.read(options) } if options
          end

          def from(target, settings, report:, **) = new(url(target), **OPTIONS.complete(settings[:options] || {}), report: report)

          private

          def url(target)
            return target if target.include?("://")

            target.start_with?("/") ? "redis+unix://#{target}" : "redis://#{target}"
          end
        end

        # The stream keeps about `max_length` entries.
        def initialize(url, stream: STREAM, max_length: nil, clock: Time.method(:now), **waits)
          @key = stream
          @writer_key = "{#{stream}}:writer:#{SecureRandom.hex(16)}"
          super("#{Gyre::Redis::Connection.shown(url)} #{stream}", format: :redis, **waits)
          @connection = Gyre::Redis::Connection.new(url, @retries)
          @clients_key = "{#{stream}}:clients"
          @clock = clock
          @forgotten_at = 0
          @trim = max_length ? Wire.command("XTRIM", stream, "MAXLEN", "~", max_length) : ""
          @batch = 0
        end

        def prepare = @stored ||= read_clients.transform_values(&:first)

        def write(data, clients = nil)
          prepare
          number = nil
          @connection.use("store in it") do |redis|
            next if number && redis.call(["GET", @writer_key]).first == number.to_s

            check_types(redis)
            number = @batch += 1
            redis.write(transaction(data, clients, number))
            number = nil unless (failure = failure_in(redis, number)).nil?
            raise Gyre::Redis::Connection::Refused, failure if failure
          end
          remember(clients || {})
        end

        def reopen = close

        def close = @connection.close

        # Returns 0 for an unknown client. Raises Unavailable until the clients are read.
        def stored_by(client_id)
          raise Unavailable, "#{@name}: its clients have not been read yet" unless @stored

          @stored.fetch(client_id, 0)
        end

        def sink_options = { format: @format, key: @key }

        private

        def transaction(data, clients, number)
          bytes = Wire.command("MULTI") << data << @trim << numbers(clients || {})
          bytes << Wire.command("SET", @writer_key, number, "EX", WRITER_KEPT_S) << Wire.command("EXEC") <<
            Wire.command("ECHO", "end of #{number}")
        end

        # Checks the keys' types, because a failed command inside EXEC does not stop the others.
        def check_types(redis)
          types = redis.call(["TYPE", @key], ["TYPE", @clients_key])
          return if %w[stream none].include?(types[0]) && %w[hash none].include?(types[1])

          raise Gyre::Redis::Connection::Refused, "#{@key} is a #{types[0]} and #{@clients_key} a #{types[1]}, not a stream and a hash"
        end

        # Reads replies up to ECHO's. Returns nil if EXEC has succeeded with an Array, otherwise the
        # error. After an error, the batch is sent again under another number.
        def failure_in(redis, number)
          failure = done = nil
          until (reply = redis.read) == "end of #{number}"
            failure ||= reply if reply.is_a?(Wire::Failure)
            done = reply if reply.is_a?(Array)
          end
          failure ||= done&.find { |each| each.is_a?(Wire::Failure) }
          failure ? failure.message : (done ? nil : "the transaction was not executed")
        end

        # Returns the command that stores the clients' numbers and the time; an empty String if
        # there are no clients.
        def numbers(clients)
          time = @clock.call.to_i
          clients.empty? ? "" : Wire.command("HSET", @clients_key, *clients.flat_map { |id, seq| [id, "#{seq} #{time}"] })
        end

        # Remembers stored numbers, and forgets old clients once a day.
        def remember(clients)
          @stored.update(clients)
          now = @clock.call.to_i
          return if now - @forgotten_at < FORGOTTEN_EVERY_S

          @forgotten_at = now
          old = read_clients.select { |_, (_, time)| time && now - time > FORGET_AFTER_S }.keys
          old.each { |id| @stored.delete(id) }
          old.each_slice(1000) { |ids| @connection.ask("forget old clients", ["HDEL", @clients_key, *ids]) }
        end

        def read_clients
          table, = @connection.ask("read from it", ["HGETALL", @clients_key])
          table.each_slice(2).to_h { |id, text| [id, text.split.map(&:to_i)] }
        end
      end
    end
  end
end
