# frozen_string_literal: true

# Commands for many keys, over the servers at once: each server's are sent before any reply is
# waited for. Called by the client.

require "gyre/memcached/server"

module Gyre
  module Memcached
    # @api private
    class Many
      # @param ring [Ring]
      # @param single [Server, nil] the only one
      # @param keys [Keys]
      # @param commands [Commands]
      # @param options [Options]
      def initialize(ring, single, keys, commands, options)
        @ring = ring
        @single = single
        @keys = keys
        @commands = commands
        @options = options
      end

      # @return [Hash{String => Object}]
      def get(keys, options)
        return {} if keys.empty?
        return each(keys) { |key| @commands.get(key, options.merge(cache_nils: true)) }.reject { |_, value| NOT_FOUND.equal?(value) } if options
        return at_single { |server| server.values(keys, nil, false) } || {} if @single

        callers = @keys.callers(keys)
        values = spread(callers.keys) { |server, full| server.values(full, full.map { |key| callers[key] }, true) }
        values.reduce({}, :merge!)
      end

      # @return [Hash{String => Array(Object, Integer)}]
      def get_cas(keys, options)
        each(keys) { |key| @commands.get_cas(key, options) }.reject { |_, (_, cas)| cas.zero? }
      end

      # @return [Hash{String => Hash}]
      def get_with_metadata(keys, options)
        found = each(keys) { |key| @commands.get_with_metadata(key, options) }
        found.reject { |_, fields| fields[:miss] }.transform_values { |fields| fields.except(:won_recache, :lost_recache) }
      end

      # @param pairs [Hash]
      # @param ttl_s [Integer]
      # @return [nil]
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
        spread(triples.keys) { |server, full| server.set_all(full.flat_map { |key| triples[key] }, ttl_s, true) }
        raise error if error
      end

      # @return [Integer]
      def delete(keys, options)
        unless options.nil? || options.is_a?(Hash)
          raise ArgumentError, "delete_multi takes its keys in an Array, and then options, got #{options.inspect[0, 80]}"
        end
        return 0 if keys.empty?
        return each(keys) { |key| @commands.delete(key, options) }.values.count(true) if options

        full = keys.map { |key| @keys.full(key) }
        spread(full) { |server, own| server.delete_all(own, true) }.sum
      end

      private

      # @return [Object, nil] nil: it is not available
      def at_single
        Server::Failed.retrying { yield @single }
      rescue NoServerError
        nil
      end

      # What cannot be had because no server is available is left out, as Dalli does.
      def spread(full, &start)
        results = []
        failures = Hash.new(0).compare_by_identity # Server => how many groups of keys have failed there
        until full.empty?
          again = []
          started = (@single ? { @single => full } : @ring.groups(full)).map do |server, own|
            [server, own, start.call(server, own)]
          rescue Server::Failed, NoServerError => error
            retry_elsewhere(error, own, again, failures[server] += 1)
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

      # Where the server is not available any more, another one may have its place.
      # @return [nil]
      def retry_elsewhere(error, keys, again, failures)
        if error.is_a?(NoServerError)
          again.concat(keys) unless @single || failures > @options.failures_limit
        elsif error.retry?(true, failures) || (!@single && error.elsewhere?(true, failures))
          again.concat(keys)
        else
          error.raise_to_caller
        end
        nil
      end

      # One command a key. Those that failed, and only those, are tried again.
      # @return [Hash{String => Object}] results by the caller's keys
      def each(keys)
        commands = keys.to_h { |key| [key.to_s, yield(key)] }
        results = {}
        failures = 0
        left = commands
        until left.empty?
          failures += 1
          left = round(left, results, failures)
        end
        commands.keys.filter_map { |key| [key, results[key]] if results.key?(key) }.to_h
      end

      # @return [Hash{String => Command}] what is to be tried again
      def round(commands, results, failures)
        calls = Server.together(@ring.servers) { commands.map { |key, command| [key, command, start(command)] } }
        calls.each_with_object({}) do |(key, command, call), again|
          next if call.nil?
          raise call if call.is_a?(Server::Failed)

          results[key] = command.value(call.value)
        rescue Server::Failed => error
          error.retry?(command.idempotent, failures) ? again[key] = command : error.raise_to_caller
        end
      end

      # @return [Call, Server::Failed, nil] nil: no server is available
      def start(command)
        server = @single || @ring.server_for(command.key)
        server.carry_out(command, :hold)
      rescue NoServerError
        nil
      rescue Server::Failed => error
        error
      end
    end
  end
end
