# frozen_string_literal: true

# The memcached client. Chooses each key's server and retries failed commands; memcached/commands.rb
# makes the commands, and servers have the connections. If there is a scheduler, a call parks its
# fiber, and all commands of a turn are sent together. Otherwise a call blocks only its thread.

require "gyre/memcached/address"
require "gyre/memcached/commands"
require "gyre/memcached/multi"
require "gyre/memcached/options"
require "gyre/memcached/pipeline"
require "gyre/memcached/ring"

module Gyre
  module Memcached
    # Fibers and threads may share a client.
    #
    # Methods raise NetworkError if a connection fails and the command cannot be repeated,
    # NoServerError if no server is available, ProtocolError for a malformed reply, ServerError or
    # CommandError for an error reply, and ArgumentError for invalid arguments. The parameter
    # `options` takes Dalli's options, such as `raw: true`.
    class Client
      include Multi

      # Takes `servers` like {Address.list}, and {Options} as keywords or, like Dalli, as a Hash.
      # Raises ArgumentError.
      def initialize(servers = nil, table = nil, **options)
        @options = Options.of(table, options)
        @keys = @options.keys
        values = @options.values
        @expiry = @options.expiry
        @commands = Commands.new(@keys, values, @expiry)
        @servers = addresses(servers).map { |address| Server.new(address, @options) }
        @ring = Ring.new(@servers, failover: @options[:failover])
        @single = @servers.first if @servers.size == 1
        @servers.each { |server| server.prepare(@single ? @keys : nil, @keys.fixed_prefix, values, values.direct_bytes) }
        @quiet = {}.compare_by_identity # Fiber => servers to which its quiet block has sent
      end

      def get(key, options = nil)
        return run(@commands.get(key, options)) if options || !@quiet.empty?

        key = @keys.full(key) unless @single
        Server::Failed.retrying { (@single || @ring.server_for(key)).get(key) }
      end

      # Stores a value. Returns its CAS number, or false if it was not stored. If `ttl` is nil, the
      # client's expires_in applies; see {Expiry#seconds}.
      def set(key, value, ttl = nil, options = nil)
        return run(@commands.set(key, value, ttl, options)) if options || !@quiet.empty?

        ttl = @expiry.seconds(ttl)
        key = @keys.full(key) unless @single
        Server::Failed.retrying { (@single || @ring.server_for(key)).set(key, value, ttl) }
      end

      # Returns true if the key existed. `invalidate: true` only marks the value as stale.
      def delete(key, options = nil)
        return run(@commands.delete(key, options)) if options || !@quiet.empty?

        key = @keys.full(key) unless @single
        Server::Failed.retrying { (@single || @ring.server_for(key)).delete(key) }
      end

      # Gets a value and sets its time to live.
      def gat(key, ttl = nil, options = nil) = run(@commands.gat(key, ttl, options))

      # Sets the time to live. Returns true, or nil if the key is missing.
      def touch(key, ttl = nil) = run(@commands.touch(key, ttl))

      # Stores a value if the key is missing. Returns the CAS number; false if the key exists.
      def add(key, value, ttl = nil, options = nil) = run(@commands.add(key, value, ttl, options))

      # Stores a value if the key exists. Returns the CAS number; false if the key is missing.
      def replace(key, value, ttl = nil, options = nil) = run(@commands.replace(key, value, ttl, options))

      # Appends to a raw value. Returns true if the key exists.
      def append(key, value, options = nil) = run(@commands.append(key, value, options))

      # Prepends to a raw value. Returns true if the key exists.
      def prepend(key, value, options = nil) = run(@commands.prepend(key, value, options))

      # Adds to a counter, which wraps at 64 bits. If the key is missing, stores `default` with
      # `ttl`, or returns nil if `default` is nil.
      def incr(key, amount = 1, ttl = nil, default = nil, options = nil) = run(@commands.incr(key, amount, ttl, default, options))

      # Works like {#incr}, but subtracts, and never below 0.
      def decr(key, amount = 1, ttl = nil, default = nil, options = nil) = run(@commands.decr(key, amount, ttl, default, options))

      # Returns or yields the value and the CAS number, which is 0 if the key is missing.
      def get_cas(key, options = nil)
        found = run(@commands.get_cas(key, options))
        block_given? ? yield(*found) : found
      end

      # Stores a value if the CAS number is `cas`, or `cas` is 0. Returns the new number, or false.
      def set_cas(key, value, cas, ttl = nil, options = nil) = run(@commands.set_cas(key, value, cas, ttl, options))

      def replace_cas(key, value, cas, ttl = nil, options = nil) = run(@commands.replace_cas(key, value, cas, ttl, options))

      # Deletes a value if its CAS number is `cas`, or `cas` is 0. Returns true if it was deleted.
      def delete_cas(key, cas = 0, options = nil) = run(@commands.delete_cas(key, cas, options))

      # Replaces a value by the block's result. Returns the new CAS number, false if another client
      # has changed the value, or nil if the key is missing.
      def cas(key, ttl = nil, options = nil, &block) = change(key, false, ttl, options, &block)

      # Works like {#cas}, but if the key is missing, yields nil and adds the block's result.
      def cas!(key, ttl = nil, options = nil, &block) = change(key, true, ttl, options, &block)

      # Returns the stored value. If the key is missing, adds and returns the block's result.
      def fetch(key, ttl = nil, options = nil)
        options = (options || {}).merge(cache_nils: true) if @options[:cache_nils]
        value = get(key, options)
        missing = @options[:cache_nils] ? NOT_FOUND.equal?(value) : value.nil?
        return value unless block_given? && missing

        yield.tap { |made| add(key, made, ttl, options) }
      end

      # Works like {#fetch}, but within `lock_ttl` seconds only one caller runs its block; others
      # get the old value or "". Refreshes a value that expires within `recache_threshold` seconds.
      def fetch_with_lock(key, ttl: nil, lock_ttl: 30, recache_threshold: nil, req_options: nil)
        raise ArgumentError, "fetch_with_lock needs a block that makes the value" unless block_given?

        @expiry.seconds(ttl)
        wanted = (req_options || {}).merge(vivify_ttl: lock_ttl, recache_ttl: recache_threshold)
        found = run(@commands.get_with_metadata(key, wanted, name: :fetch_with_lock))
        return found[:value] unless found[:won_recache]

        yield.tap { |made| set(key, made, ttl, req_options) }
      end

      # Returns value, cas, miss, stale, won_recache, lost_recache, and fields that options request.
      def get_with_metadata(key, options = {}) = run(@commands.get_with_metadata(key, options))

      def get_with_metadata_result(key, options = {}) = Result.new(**get_with_metadata(key, options))

      # Sends the block's commands together; sends none if the block raises. Returns the results in
      # order. If commands fail, raises the first error after all commands have ended.
      def pipeline
        pipeline = Pipeline.new(@commands)
        yield pipeline
        failure = nil
        results = together(pipeline.commands) { |error| (failure ||= error) && nil }
        failure ? raise(failure) : results
      end

      # Returns an object whose methods return Gyre::Promises.
      def async = Async.new(self)

      # In the block, set, add, replace, delete, append, prepend, incr, decr and flush return nil at
      # once and report no failures. The servers have run these commands when this method returns.
      # Other methods raise NotPermittedInQuiet. All methods may raise NoServerError.
      def quiet
        fiber = Fiber.current
        return yield if @quiet[fiber]

        begin
          servers = @quiet[fiber] = {}.compare_by_identity
          yield
        ensure
          @quiet.delete(fiber)
          settle(servers.keys)
        end
      end
      alias multi quiet

      # Empties all servers.
      def flush(delay = 0)
        delay = @commands.number(:delay, delay)
        text = delay.to_i.zero? ? "flush_all\r\n" : "flush_all #{delay}\r\n"
        failure = nil
        results = @servers.map do |server|
          quiet? ? drop(server) { server.line(:flush, text, :drop) } : line(server, :flush, text) && true
        rescue Error => error
          failure ||= error
          nil
        end
        failure ? raise(failure) : results
      end
      alias flush_all flush

      # Returns each server's statistics; nil for an unavailable server.
      def stats(type = nil)
        text = %i[items slabs settings].include?(type) ? "stats #{type}\r\n" : "stats\r\n"
        on_servers { |server| line(server, :stats, text).to_h { |row| row.partition(" ").values_at(0, 2) } }.to_h
      end

      def reset_stats = on_servers { |server| line(server, :reset_stats, "stats reset\r\n") && true }.map(&:last)

      # Returns each server's version; nil for an unavailable server.
      def version = on_servers { |server| line(server, :version, "version\r\n").first }.to_h

      # Raises NoServerError if all servers are down.
      def alive! = @ring.server_for("")

      # Yields the client itself, because callers may share it.
      def with
        yield self
      end

      # Closes all connections. The next call connects again.
      def close
        @servers.each(&:close)
        nil
      end
      alias reset close

      def inspect = "#<#{self.class} #{@servers.map(&:name).join(", ")}>"

      # Raises TypeError, because Ractor.make_shareable would also freeze a logger's file.
      def freeze
        raise TypeError, "a memcached client cannot be frozen, nor given to another Ractor: make one there"
      end

      # Sends commands together. Returns each command's result, or the block's value for its Error.
      def together(commands)
        calls = Server.together(@servers) do
          commands.map do |command|
            server_of(command).carry_out(command, :hold)
          rescue Error => error
            error
          end
        end
        commands.each_with_index.map do |command, index|
          call = calls[index]
          call.is_a?(Error) ? raise(call) : finish(command, call)
        rescue Error => error
          yield error
        end
      end

      def finish(command, call)
        Server::Failed.retrying(command.idempotent) do
          started, call = call, nil # a retry may choose another server
          command.value(started ? started.value : server_of(command).carry_out(command))
        end
      end

      private

      QUIET = %i[set add replace delete append prepend incr decr].freeze

      def addresses(servers) = Address.some(servers)

      def server_of(command) = @single || @ring.server_for(command.key)

      def run(command)
        return finish(command, nil) unless quiet?

        refuse_in_quiet(command.name) unless QUIET.include?(command.name)
        server = server_of(command)
        drop(server) { server.carry_out(command, :drop) }
      end

      def line(server, name, text)
        refuse_in_quiet(name)
        Server::Failed.retrying { server.line(name, text, nil) }
      end

      def quiet? = !@quiet.empty? && @quiet.key?(Fiber.current)

      # Sends a command of a quiet block and remembers its server.
      def drop(server)
        @quiet[Fiber.current][server] = true
        yield
        nil
      end

      # Sends each server a no-op and waits for its reply. Earlier commands have ended by then.
      def settle(servers)
        calls = servers.map { |server| unreported { server.line(:quiet, "mn\r\n", :send) if server.connection } }
        calls.each { |call| unreported { call&.value } }
      end

      def unreported
        yield
      rescue Error, Server::Failed
        nil
      end

      def refuse_in_quiet(name)
        return unless quiet?

        raise NotPermittedInQuiet, "#{name} needs a reply, which a quiet block does not await: call it after the block"
      end

      def change(key, makes, ttl, options)
        options = (options || {}).merge(cache_nils: true) if @options[:cache_nils]
        value, cas = get_cas(key, options)
        missing = @options[:cache_nils] ? cas.zero? : value.nil?
        return if missing && !makes

        value = yield(value)
        cas.zero? ? add(key, value, ttl, options) : set_cas(key, value, cas, ttl, options)
      end

      # Pairs each server's name with the block's value; nil if the server is unavailable.
      def on_servers
        @servers.map do |server|
          [server.name, (yield(server) if server.alive?)]
        rescue NoServerError
          [server.name, nil]
        end
      end
    end
  end
end
