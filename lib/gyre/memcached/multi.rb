# frozen_string_literal: true

# The client's methods for many keys. Each sends all commands before it waits for replies.

require "gyre/memcached/result"
require "gyre/memcached/server"

module Gyre
  module Memcached
    module Multi
      # Returns a Hash of found values by key. If a block is given, yields each pair instead; if a
      # value cannot be read, raises after it has yielded the others.
      def get_multi(*keys, req_options: nil, &block)
        refuse_in_quiet(:get_multi)
        keys = keys.flatten.compact
        begin
          found = values_of(keys, req_options)
        rescue DeserializationError => error
          raise unless block

          found = readable(keys, req_options)
        end
        each_pair(found, &block).tap { raise error if error }
      end

      # Works like {#get_multi}, but each value is an Array of value and CAS number.
      def get_multi_cas(*keys, req_options: nil, &block)
        refuse_in_quiet(:get_multi_cas)
        each_pair(by_key(keys) { |key| @commands.get_cas(key, req_options) }.reject { |_, (_, cas)| cas.zero? }, &block)
      end

      def get_multi_with_metadata(*keys, req_options: nil, &block)
        refuse_in_quiet(:get_multi_with_metadata)
        found = by_key(keys) { |key| @commands.get_with_metadata(key, req_options) }.reject { |_, fields| fields[:miss] }
        each_pair(found.transform_values { |fields| fields.except(:won_recache, :lost_recache) }, &block)
      end

      def get_multi_with_metadata_result(*keys, req_options: nil)
        get_multi_with_metadata(*keys, req_options: req_options).transform_values { |fields| Result.new(**fields) }
      end

      # Stores all valid values, then raises ArgumentError or SerializationError for invalid ones.
      def set_multi(pairs, ttl = nil, options = nil)
        refuse_in_quiet(:set_multi)
        ttl_s = @expiry.seconds(ttl)
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

      # Returns the number of deleted keys.
      def delete_multi(keys, options = nil)
        refuse_in_quiet(:delete_multi)
        unless options.nil? || options.is_a?(Hash)
          raise ArgumentError, "delete_multi takes its keys in an Array, and then options, got #{options.inspect[0, 80]}"
        end
        return by_key(keys) { |key| @commands.delete(key, options) }.values.count(true) if options

        spread(Array(keys).map { |key| @keys.full(key) }) { |server, full| server.delete_all(full) }.sum
      end

      private

      def values_of(keys, options)
        return {} if keys.empty?
        return by_key(keys) { |key| @commands.get(key, options.merge(cache_nils: true)) } if options
        return at_single { |server| server.values(keys, nil) } || {} if @single

        callers = @keys.callers(keys)
        values = spread(callers.keys) { |server, full| server.values(full, full.map { |key| callers[key] }) }
        values.reduce({}, :merge!)
      end

      # Gets each value by itself, and leaves out those that cannot be read.
      def readable(keys, options)
        keys.each_with_object({}) do |key, found|
          found.merge!(values_of([key], options))
        rescue DeserializationError
          nil
        end
      end

      # Returns nil if the server is down.
      def at_single
        Server::Failed.retrying { yield @single }
      rescue NoServerError
        nil
      end

      # Skips keys for which no server is available, like Dalli.
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

      # Adds keys to `again` if the call may run again on this or another server; otherwise raises.
      def retry_elsewhere(error, keys, again, failures)
        return again.concat(keys) if error.retry?(true, failures) || (!@single && error.elsewhere?(true, failures))

        error.raise_to_caller
      end

      # Sends one command per key, and repeats those whose connection fails. Omits keys that are
      # NOT_FOUND or have no available server.
      def by_key(keys)
        commands = Array(keys).flatten.compact.to_h { |key| [key.to_s, yield(key)] }
        results = together(commands.values) { |error| error.is_a?(NoServerError) ? NOT_FOUND : raise(error) }
        commands.keys.zip(results).reject { |_, result| NOT_FOUND.equal?(result) }.to_h
      end

      def each_pair(table, &block)
        return table unless block

        table.each(&block)
        nil
      end
    end
  end
end
