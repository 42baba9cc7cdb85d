# frozen_string_literal: true

# Commands for many keys: sends all before it waits for replies. Called by the client.

require "gyre/memcached/server"

module Gyre
  module Memcached
    class Multi
      def initialize(client, ring, single, keys, commands, options)
        @client = client
        @ring = ring
        @single = single
        @keys = keys
        @commands = commands
        @options = options
      end

      def get(keys, options)
        return {} if keys.empty?
        return each(keys) { |key| @commands.get(key, options.merge(cache_nils: true)) } if options
        return at_single { |server| server.values(keys, nil) } || {} if @single

        callers = @keys.callers(keys)
        values = spread(callers.keys) { |server, full| server.values(full, full.map { |key| callers[key] }) }
        values.reduce({}, :merge!)
      end

      def get_cas(keys, options) = each(keys) { |key| @commands.get_cas(key, options) }.reject { |_, (_, cas)| cas.zero? }

      def get_with_metadata(keys, options)
        found = each(keys) { |key| @commands.get_with_metadata(key, options) }
        found.reject { |_, fields| fields[:miss] }.transform_values { |fields| fields.except(:won_recache, :lost_recache) }
      end

      def set(pairs, ttl_s, options)
        return if pairs.empty?
        return if @single && !options && at_single { |server| server.set_pairs(pairs.to_a.flatten(1), ttl_s) }

        error = nil
        triples = {}
        pairs.each do |key, value|
          full = @keys.full(key)
          triples[full] = [full, *@commands.dump(full, value, options)]
        rescue Error, ArgumentError => problem
          raise if full.nil?

          error ||= problem
        end
        spread(triples.keys) { |server, full| server.set_all(full.flat_map { |key| triples[key] }, ttl_s) }
        raise error if error
      end

      def delete(keys, options)
        unless options.nil? || options.is_a?(Hash)
          raise ArgumentError, "delete_multi takes its keys in an Array, and then options, got #{options.inspect[0, 80]}"
        end
        return 0 if keys.empty?
        return each(keys) { |key| @commands.delete(key, options) }.values.count(true) if options

        full = keys.map { |key| @keys.full(key) }
        spread(full) { |server, own| server.delete_all(own) }.sum
      end

      private

      # nil if it is down.
      def at_single
        Server::Failed.retrying { yield @single }
      rescue NoServerError
        nil
      end

      # Skips keys without a server, like Dalli.
      def spread(full, &start)
        results = []
        failures = Hash.new(0).compare_by_identity # Server => failed groups of keys
        until full.empty?
          again = []
          started = (@single ? { @single => full } : @ring.groups(full)).map do |server, own|
            [server, own, start.call(server, own)]
          rescue NoServerError
            again.concat(own) unless @single || (failures[server] += 1) > @options.failures_limit
            nil
          end
          started.compact.each do |server, own, call|
            results << call.value
          rescue Server::Failed => error
            retry_elsewhere(error, own, again, failures[server] += 1)
          end
          full = again
        end
        results
      end

      # Another server may take a failed one's place.
      def retry_elsewhere(error, keys, again, failures)
        return again.concat(keys) if error.retry?(true, failures) || (!@single && error.elsewhere?(true, failures))

        error.raise_to_caller
      end

      # Sends a command per key; repeats failed ones. Omits missing keys and keys without a server.
      def each(keys)
        commands = keys.to_h { |key| [key.to_s, yield(key)] }
        results = @client.together(commands.values) { |error| error.is_a?(NoServerError) ? NOT_FOUND : raise(error) }
        commands.keys.zip(results).reject { |_, result| NOT_FOUND.equal?(result) }.to_h
      end
    end
  end
end
