# frozen_string_literal: true

# Makes commands for one key and converts replies, for the client and pipelines. Uses no server.

require "gyre/memcached/errors"

module Gyre
  module Memcached
    # A missing key's result if `cache_nils` is true.
    NOT_FOUND = Object.new
    class << NOT_FOUND
      def inspect = "Gyre::Memcached::NOT_FOUND"
    end
    NOT_FOUND.freeze # so that Ractors can use it

    # A command of the meta protocol. `name` is the client's method, `idempotent` allows a retry,
    # and `result` converts a Reply.
    Command = Struct.new(:name, :verb, :key, :flags, :bytes, :value_flags, :ttl, :idempotent, :result) do
      def value(reply) = result.is_a?(Symbol) ? reply.public_send(result) : result.call(reply)

      # Copies key and value, because the caller may change them before the command is sent.
      def keep
        self.key = key.dup.freeze unless key.frozen?
        self.bytes = bytes.dup.freeze unless bytes.nil? || bytes.frozen?
        self
      end
    end

    # Completes keys and serializes values. Raises ArgumentError before any byte is sent.
    class Commands
      INTEGERS = (0..2**64 - 1).freeze
      MODES = { set: "", add: " ME", replace: " MR" }.freeze
      METADATA = { return_hit_status: " h", return_last_access: " l", return_ttl_remaining: " t", skip_lru_bump: " u" }.freeze

      def initialize(keys, values, expiry)
        @keys = keys
        @values = values
        @expiry = expiry
      end

      def get(key, options = nil) = read(:get, key, wanted(options)) { |reply| value_of(reply, options, missing(options)) }

      def gat(key, ttl = nil, options = nil)
        read(:gat, key, "#{wanted(options)} T#{@expiry.seconds(ttl)}") { |reply| value_of(reply, options, missing(options)) }
      end

      def touch(key, ttl = nil) = Command.new(:touch, :mg, @keys.full(key), " T#{@expiry.seconds(ttl)}", nil, 0, 0, true, :touched)

      def get_cas(key, options = nil) = read(:get_cas, key, "#{wanted(options)} c") { |reply| [value_of(reply, options), reply.cas] }

      def get_with_metadata(key, options = nil, name: :get_with_metadata)
        options ||= {}
        flags = +"#{wanted(options)} c"
        flags << " N#{@expiry.seconds(options[:vivify_ttl])}" if options[:vivify_ttl]
        flags << " R#{@expiry.seconds(options[:recache_ttl])}" if options[:recache_ttl]
        METADATA.each { |name, letter| flags << letter if options[name] }
        command = read(name, key, flags) { |reply| metadata_of(reply, options) }
        command.idempotent = !(options[:vivify_ttl] || options[:recache_ttl])
        command
      end

      def set(key, value, ttl = nil, options = nil) = store(:set, key, value, ttl, 0, options)
      def add(key, value, ttl = nil, options = nil) = store(:add, key, value, ttl, 0, options)
      def replace(key, value, ttl = nil, options = nil) = store(:replace, key, value, ttl, 0, options)
      def set_cas(key, value, cas, ttl = nil, options = nil) = store(:set, key, value, ttl, number(:cas, cas), options)
      def replace_cas(key, value, cas, ttl = nil, options = nil) = store(:replace, key, value, ttl, number(:cas, cas), options)

      def append(key, value, _options = nil) = extend_value(:append, "MA", key, value)
      def prepend(key, value, _options = nil) = extend_value(:prepend, "MP", key, value)

      def incr(key, amount = 1, ttl = nil, default = nil, _options = nil) = count(:incr, "MI", key, amount, ttl, default)
      def decr(key, amount = 1, ttl = nil, default = nil, _options = nil) = count(:decr, "MD", key, amount, ttl, default)

      def delete(key, options = nil) = delete_cas(key, 0, options)

      def delete_cas(key, cas = 0, options = nil)
        cas = number(:cas, cas) || 0
        Command.new(:delete, :md, @keys.full(key), "#{" C#{cas}" unless cas.zero?}#{deletion(options)}", nil, 0, 0, cas.zero?, :done)
      end

      def deletion(options)
        return "" unless options.is_a?(Hash)
        raise ArgumentError, "tombstone_ttl requires invalidate: true" if options[:tombstone_ttl] && !options[:invalidate]

        flags = options[:invalidate] ? +" I" : +""
        flags << " T#{@expiry.seconds(options[:tombstone_ttl])}" if options[:tombstone_ttl]
        options[:drop_value] ? flags << " x" : flags
      end

      def number(name, value)
        return if value.nil?

        integer = value.is_a?(String) ? Integer(value, 10, exception: false) : value
        return integer if integer.is_a?(Integer) && INTEGERS.cover?(integer)

        raise ArgumentError, "#{name} must be an Integer from 0 to #{INTEGERS.end}, got #{value.inspect[0, 80]}"
      end

      # Returns bytes and flags.
      def dump(key, value, options)
        options ? @values.dump(key, value, **options.slice(:raw, :compress, :string_fastpath)) : @values.dump(key, value)
      end

      private

      def read(name, key, flags, &result) = Command.new(name, :mg, @keys.full(key), flags, nil, 0, 0, true, result)

      def store(name, key, value, ttl, cas, options)
        full = @keys.full(key)
        flags = " c#{MODES.fetch(name)}#{" C#{cas}" unless cas.nil? || cas.zero?}"
        bytes, value_flags = dump(full, value, options)
        idempotent = name != :add && (cas.nil? || cas.zero?)
        Command.new(name, :ms, full, flags, bytes, value_flags, @expiry.seconds(ttl), idempotent, :stored)
      end

      def extend_value(name, mode, key, value)
        Command.new(name, :ms, @keys.full(key), " #{mode}", value.to_s, 0, 0, false, :done)
      end

      def count(name, mode, key, amount, ttl, default)
        amount = number(:amount, amount)
        default = number(:default, default)
        flags = " v #{mode}#{" D#{amount}" if amount}"
        flags = "#{flags} N#{@expiry.seconds(ttl)} J#{default}" if default
        Command.new(name, :ma, @keys.full(key), flags, nil, 0, 0, false, :counted)
      end

      def raw?(options) = @values.raw || (options && options[:raw])

      def wanted(options) = raw?(options) ? " v" : " v f"

      # A missing key's result.
      def missing(options) = options && options[:cache_nils] ? NOT_FOUND : nil

      def value_of(reply, options, missing = nil)
        return missing if reply.code == :en
        return true if reply.code == :hd

        raw?(options) ? reply.bytes : @values.load(reply.bytes, reply.flags)
      end

      def metadata_of(reply, options)
        fields = { value: nil, cas: reply.cas, won_recache: reply.won, stale: reply.stale, lost_recache: reply.lost, miss: reply.code == :en }
        fields[:hit_before] = reply.hit if options[:return_hit_status]
        fields[:last_access] = reply.idle_s || 0 if options[:return_last_access]
        fields[:ttl_remaining] = reply.ttl_s || 0 if options[:return_ttl_remaining]
        fields[:value] = reply.code == :va ? value_of(reply, options) : missing(options)
        fields
      end
    end
  end
end
