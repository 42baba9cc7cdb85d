# frozen_string_literal: true

# The clients that bench/memcached compares, each with the same three pieces of work: set all keys,
# get them, delete them. Loaded by the measured processes (create) and by the command (names). Gems
# are required only when asked for. Each piece of work checks its replies as it goes. That of
# libmemcached is a program in C (libmemcached_child.c).

require "socket"

module Bench
  # Clients by name.
  module MemcachedWork
    BATCH = 100 # keys of a multi call
    PIPELINE = 1000 # commands of one write on the bare socket
    TIMEOUT_S = 60 # a busy machine is no failure of a client

    # What the report calls each.
    LABELS = {
      "socket" => "bare socket, #{PIPELINE} commands a write",
      "dalli" => "Dalli",
      "dalli-16-threads" => "Dalli, 16 threads",
      "dalli-multi" => "Dalli, multi of #{BATCH} keys",
      "eventmachine" => "EventMachine's client",
      "libmemcached" => "libmemcached, called from C",
      "gyre-thread" => "Gyre, one thread without a loop",
      "gyre-16-threads" => "Gyre, 16 threads without a loop",
      "gyre-1" => "Gyre, 1 fiber",
      "gyre-16" => "Gyre, 16 fibers",
      "gyre-100" => "Gyre, 100 fibers",
      "gyre-1000" => "Gyre, 1,000 fibers",
      "gyre-multi" => "Gyre, multi of #{BATCH} keys",
      "gyre-pipeline" => "Gyre, pipeline of #{PIPELINE}"
    }.freeze

    # A reply that is not what was stored.
    class Wrong < StandardError; end

    module_function

    # Returns a client with its way of working.
    def create(name, port)
      case name
      when "socket" then BareSocket.new(port)
      when "eventmachine" then Callbacks.new(port)
      when /\A(dalli|gyre)-multi\z/ then Multi.new(connect($1, port))
      when "gyre-pipeline" then Pipelined.new(connect("gyre", port))
      when "dalli", "gyre-thread" then OneByOne.new(connect(name[/\w+/], port))
      when /\A(dalli|gyre)-(\d+)-threads\z/ then Threads.new(connect($1, port), $2.to_i)
      when /\Agyre-(\d+)\z/ then Fibers.new(connect("gyre", port), $1.to_i)
      else raise ArgumentError, "unknown client: #{name}; there are: #{LABELS.keys.join(', ')}"
      end
    end

    def connect(library, port)
      if library == "dalli"
        require "dalli"
        Dalli.logger.level = Logger::WARN
        Dalli::Client.new("127.0.0.1:#{port}", socket_timeout: TIMEOUT_S)
      else
        require "gyre"
        require "gyre/memcached"
        Gyre::Memcached::Client.new("127.0.0.1:#{port}", socket_timeout: TIMEOUT_S)
      end
    end

    # One command after the other, as plain code has it. The others differ in how they divide keys.
    class OneByOne
      def initialize(client)
        @client = client
      end

      # Runs the block where the client works.
      def around = yield

      def set(keys, values)
        divide(keys) { |index| @client.set(keys[index], values[index]) or raise Wrong, "set #{keys[index]}" }
      end

      def get(keys, values)
        divide(keys) { |index| @client.get(keys[index]) == values[index] or raise Wrong, "get #{keys[index]}" }
      end

      def delete(keys)
        divide(keys) { |index| @client.delete(keys[index]) or raise Wrong, "delete #{keys[index]}" }
      end

      private

      def divide(keys, &block) = keys.size.times(&block)
    end

    # The same by several threads, which share the client.
    class Threads < OneByOne
      def initialize(client, threads)
        super(client)
        @threads = threads
      end

      private

      def divide(keys, &block)
        Array.new(@threads) { |first| Thread.new { first.step(keys.size - 1, @threads, &block) } }.each(&:join)
      end
    end

    # The same by several fibers, which share the client.
    class Fibers < OneByOne
      def initialize(client, fibers)
        super(client)
        @fibers = fibers
      end

      def around(&block)
        Gyre.run(&block)
      end

      private

      def divide(keys, &block)
        Gyre.run do |task|
          Array.new(@fibers) { |first| task.async { first.step(keys.size - 1, @fibers, &block) } }.each(&:wait)
        end
      end
    end

    # The methods for many keys.
    class Multi
      def initialize(client)
        @client = client
      end

      def around = yield

      def set(keys, values)
        keys.each_slice(BATCH).zip(values.each_slice(BATCH)) { |some, theirs| @client.set_multi(some.zip(theirs).to_h) }
      end

      def get(keys, values)
        keys.each_slice(BATCH).zip(values.each_slice(BATCH)) do |some, theirs|
          @client.get_multi(some).values_at(*some) == theirs or raise Wrong, "get_multi #{some.first}"
        end
      end

      def delete(keys)
        keys.each_slice(BATCH) { |some| @client.delete_multi(some) }
        @client.get(keys.last).nil? or raise Wrong, "delete_multi #{keys.last}"
      end
    end

    # Batches of our client.
    class Pipelined
      def initialize(client)
        @client = client
      end

      def around = yield

      def set(keys, values)
        each_batch(keys) { |batch, index| batch.set(keys[index], values[index]) }
      end

      def get(keys, values)
        results = each_batch(keys) { |batch, index| batch.get(keys[index]) }
        results == values or raise Wrong, "get"
      end

      def delete(keys)
        each_batch(keys) { |batch, index| batch.delete(keys[index]) }.all? or raise Wrong, "delete"
      end

      private

      def each_batch(keys)
        keys.each_index.each_slice(PIPELINE).flat_map do |indices|
          @client.pipeline { |batch| indices.each { |index| yield batch, index } }
        end
      end
    end

    # The meta protocol by hand on a socket: what plain Ruby can do at best.
    class BareSocket
      def initialize(port)
        @socket = TCPSocket.new("127.0.0.1", port)
        @socket.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
      end

      def around = yield

      def set(keys, values)
        each_batch(keys) do |indices|
          @socket.write(indices.map { |index| "ms #{keys[index]} #{values[index].bytesize}\r\n#{values[index]}\r\n" }.join)
          indices.each { |index| @socket.gets == "HD\r\n" or raise Wrong, "ms #{keys[index]}" }
        end
      end

      def get(keys, values)
        each_batch(keys) do |indices|
          @socket.write(indices.map { |index| "mg #{keys[index]} v\r\n" }.join)
          indices.each do |index|
            bytes = @socket.gets.byteslice(3, 9).to_i # VA <bytes>
            @socket.read(bytes + 2).byteslice(0, bytes) == values[index] or raise Wrong, "mg #{keys[index]}"
          end
        end
      end

      def delete(keys)
        each_batch(keys) do |indices|
          @socket.write(indices.map { |index| "md #{keys[index]}\r\n" }.join)
          indices.each { |index| @socket.gets == "HD\r\n" or raise Wrong, "md #{keys[index]}" }
        end
      end

      private

      def each_batch(keys, &block) = keys.each_index.each_slice(PIPELINE, &block)
    end

    # EventMachine's client: a callback for each command, at most WINDOW of them waiting at a time.
    # All at once is slower, for it takes each line off the beginning of all that has arrived.
    class Callbacks
      WINDOW = 100

      def initialize(port)
        require "eventmachine"
        @port = port
      end

      def around
        EM.run do
          @client = EM::Protocols::Memcache.connect("127.0.0.1", @port)
          Fiber.new do
            yield
          ensure
            EM.stop
          end.resume
        end
      end

      def set(keys, values)
        divide(keys) { |index, done| @client.set(keys[index], values[index], &done) }
      end

      def get(keys, values)
        divide(keys) do |index, done|
          @client.get(keys[index]) { |value| done.call(value == values[index]) }
        end
      end

      def delete(keys)
        divide(keys) { |index, done| @client.delete(keys[index], &done) }
      end

      private

      def divide(keys)
        fiber = Fiber.current
        started = finished = 0
        start = lambda do
          index = started
          started += 1
          yield index, (lambda do |right|
            finished += 1
            right or raise Wrong, keys[index]
            start.call if started < keys.size
            fiber.resume if finished == keys.size
          end)
        end
        [WINDOW, keys.size].min.times { start.call }
        Fiber.yield
      end
    end
  end
end
