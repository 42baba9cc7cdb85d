# frozen_string_literal: true

# One memcached: its address, a connection for each home (a thread's loop; all threads without one),
# and whether it is up. The client's calls are its methods in C (ext/gyre/memcached/); here it
# connects, and errors get their names. It never decides about a retry: the client does.

require "gyre/clock"
require "gyre/loop"
require "gyre/memcached/errors"
require "gyre/net"
require "gyre/offload"

module Gyre
  module Memcached
    Loop.require_native("Gyre::Memcached")

    # A server's reply as {Server#exchange} returns it: `code` is :hd, :en, :nf, :ns, :ex or :va.
    Reply = Struct.new(:code, :bytes, :flags, :cas, :ttl_s, :idle_s, :hit, :won, :stale, :lost) do
      # The CAS number, or false.
      def stored = done && cas

      def done = code == :hd

      def touched = done || nil

      # nil: missing.
      def counted
        case code
        when :va then bytes.to_i
        when :nf then nil
        else false
        end
      end
    end

    # The pipeline of one home to one server, in C.
    class Connection
      # Called by the extension for a fiber of another library's scheduler: the scheduler may drop
      # it, so a thread reads in its place.
      # @api private
      def wait_beside(call, timeout_s) = Offload.call { wait(call, timeout_s) }
    end

    # A server as the ring and the client use it. Every method may be called from any thread.
    class Server
      # GYRE_MEMCACHED_CLOSED: a call that ends so is not tried again, and the server has not
      # failed.
      CLOSED = "the client was closed"
      private_constant :CLOSED

      attr_reader :name # "127.0.0.1:11211" or a Unix socket's path
      attr_reader :weight

      def initialize(address, options)
        @address = address
        @options = options
        @name = address.name.dup.freeze
        @weight = address.weight
        @user = address.user || options.username
        @password = address.user ? address.password : options.password
        @lock = Thread::Mutex.new
        @pid = Process.pid
        @closing = []
        @down_until_s = nil
        @cause = nil
        @news = nil
      end

      # True if there is a connection, or one could be made.
      def alive?
        connection || connect
        true
      rescue NoServerError
        false
      end

      # True if attempts to connect have failed lately.
      def down? = @down_until_s ? Clock.now < @down_until_s : false

      # Closes its connections; what waits for a reply fails.
      def close
        forget.each { |connection| finish(connection) }
        close_later_ones
        @down_until_s = nil
        nil
      end

      # A `how` of :send, :hold or :drop only starts it.
      def carry_out(command, how = nil)
        exchange(command.name, command.verb, command.key, command.flags, command.bytes, command.value_flags, command.ttl, how)
      end

      # Calls started with :hold leave together at the block's end, also if it raises.
      def self.together(servers)
        yield
      ensure
        servers.each(&:release)
      end

      def inspect
        "#<#{self.class} #{name}#{" down" if down?}>"
      end

      # A connection has failed during a call; the client decides about a retry.
      class Failed < StandardError
        # Each call has its own limit of failures. Another server may have the key's place at the
        # next attempt. Raises the last failure. `idempotent`: may be carried out twice.
        def self.retrying(idempotent = true)
          failures = 0
          begin
            yield
          rescue Failed => error
            failures += 1
            error.retry?(idempotent, failures) ? retry : error.raise_to_caller
          end
        end

        def initialize(error, sent, down, answered, limit)
          super(error.message)
          @error = error
          @sent = sent
          @down = down
          @answered = answered
          @limit = limit
        end

        # A broken reply is a reply: its command is not sent again. A server that counts as down
        # now, and never replied on this connection, could not be reached: then another one has its
        # place, or none.
        def retry?(idempotent, failures)
          return elsewhere?(idempotent, failures) if @down && !@answered

          !@down && failures < @limit && repeatable?(idempotent)
        end

        # It has no inner object as its cause.
        def raise_to_caller = raise(@error, cause: cause)

        # True if another server may carry it out while this one is down.
        def elsewhere?(idempotent, failures)
          @down && failures <= @limit && !message.end_with?(CLOSED) && repeatable?(idempotent)
        end

        private

        def repeatable?(idempotent) = !@sent || (idempotent && !@error.is_a?(ProtocolError))
      end

      private

      # Called by the extension if the present home has no connection. A blocking fiber of a loop's
      # thread takes no lock: another fiber of its thread may hold it, and cannot run meanwhile.
      def connect
        renew_after_fork if @pid != Process.pid
        return connect_alone if Fiber.scheduler && !Fiber.current_scheduler

        @lock.synchronize { connection || connect_alone }
      ensure
        report_news if @news
      end

      def connect_alone
        close_later_ones
        raise NoServerError, "No server available: #{name} is down: #{@cause}" if down?

        begin
          sweep.each { |connection| finish(connection) }
          connected = adopt(Connection.new(open, name, @options.timeout_s))
          @news = [:info, "memcached #{name} is back"] if @down_until_s
          @down_until_s = nil
          connected
        rescue SystemCallError, SocketError, IOError, TimeoutError, TLS::Error, Gyre::ProtocolError, NetworkError => error
          @cause = error.message
          attempts = attempts.to_i + 1 # of this call: others may succeed meanwhile
          raise NoServerError, "No server available: #{@cause}" if count_failure || attempts >= @options.failures_limit

          sleep(@options.failure_delay_s) if @options.failure_delay_s
          retry
        end
      end

      # Returns whether it counts as down now.
      def count_failure
        return false if (self.failures += 1) < @options.failures_limit

        self.failures = 0
        @down_until_s = Clock.now + @options.down_retry_s
        @news = [:warn, "memcached #{name} is down: #{@cause}; the next attempt is in #{@options.down_retry_s} s"]
        true
      end

      # Outside of the lock: a logger may wait.
      def report_news
        level, text = @news
        @news = nil
        @options.logger&.public_send(level, text) if text
      end

      def open
        transport = Gyre.connect(target, tls: @options.tls, timeout_s: @options.connect_timeout_s)
        log_in(transport) if @user
        opened = transport
      ensure
        transport&.abandon unless opened
      end

      def target
        return "unix://#{@address.path}" if @address.unix?

        "tcp://#{@address.host.include?(":") ? "[#{@address.host}]" : @address.host}:#{@address.port}"
      end

      # memcached -Y takes name and password as the value of a first `set` (doc/protocol.txt,
      # "Authentication"). A server without -Y would store them for everyone to read, so `version`
      # asks first.
      def log_in(transport)
        transport.read_timeout_s = transport.write_timeout_s = @options.timeout_s
        transport.write("version\r\n")
        return if transport.gets("\r\n")&.start_with?("VERSION ")

        words = "#{@user} #{@password}"
        transport.write("set auth 0 0 #{words.bytesize}\r\n#{words}\r\n")
        reply = transport.gets("\r\n", chomp: true)
        raise NetworkError, "log in to memcached at #{name} as #{@user}: #{reply || "it closed the connection"}" if reply != "STORED"
      end

      # The child's own connections; the parent's are left as they are.
      def renew_after_fork
        @pid = Process.pid
        @lock = Thread::Mutex.new
        @down_until_s = nil
        [*forget, *@closing].each(&:close)
        @closing = []
      end

      # Called by the extension for a call whose connection has failed. The failure counts once,
      # however many calls it ended. `answered`: the server has replied on this connection.
      def fail_call(command, reason, sent, answered)
        broken = sweep
        @cause = reason
        down = reason == CLOSED || (broken.any? && count_failure && down?) # before others run, which a close may let
        broken.each { |connection| finish(connection) }
        error = reason.start_with?("broken reply") ? ProtocolError : NetworkError
        close_later_ones
        report_news if @news
        raise Failed.new(error.new("#{command} at memcached #{name}: #{reason}"), sent, down, answered, @options.failures_limit)
      end

      def finish(connection)
        connection.close || @closing << connection
      end

      # Closes connections that another thread still used at the first attempt.
      def close_later_ones
        @closing.size.times do
          connection = @closing.shift or break
          finish(connection)
        end
      end

      # Called by the extension for an error that the server replied.
      def refuse_call(command, text)
        raise text.start_with?("SERVER_ERROR") ? ServerError : CommandError, "#{command} at memcached #{name}: #{text}"
      end
    end
  end
end
