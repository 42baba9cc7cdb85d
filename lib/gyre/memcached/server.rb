# frozen_string_literal: true

# One memcached server: its address, its state (up or down), and one connection for each home (a
# thread's loop, or all threads that have no loop). C methods send commands (ext/gyre/memcached/);
# this file connects and converts errors. Never decides on a retry; the client does.

require "gyre/memcached/errors"
require "gyre/net"

Gyre::Loop.define_native(:memcached)

module Gyre
  module Memcached
    Loop.require_native("Gyre::Memcached")

    # A reply that {Server#exchange} returns. `code` is :hd, :en, :nf, :ns, :ex or :va.
    Reply = Struct.new(:code, :bytes, :flags, :cas, :ttl_s, :idle_s, :hit, :won, :stale, :lost) do
      # Returns the CAS number, or false.
      def stored = done && cas

      def done = code == :hd

      def touched = done || nil

      def counted
        case code
        when :va then bytes.to_i
        when :nf then nil
        else false
        end
      end
    end

    # A home's pipeline to one server, implemented in C.
    class Connection
      # Called by the extension under another library's scheduler. A thread waits for the call,
      # because that scheduler may drop the fiber.
      def wait_beside(call) = Offload.call { wait(call) }

      def inspect = "#<#{self.class} #{@name}>"
    end

    class Server
      # `ms` has the value's length since this version. Older ones would run the lines of a value as
      # commands. Other programs, such as proxies, have versions of another form.
      VERSION_LEAST = [1, 6, 10].freeze
      VERSION = /\A(\d+)\.(\d+)\.(\d+)\S*\z/.freeze

      attr_reader :name # "127.0.0.1:11211" or a Unix socket's path
      attr_reader :weight

      def initialize(address, options)
        @address = address
        @options = options
        @name = address.name.dup.freeze
        @weight = address.weight
        @user = address.user || options[:username]
        @password = address.user ? address.password : options[:password]
        @lock = Thread::Mutex.new
        @pid = Process.pid
        @closing = []
        @down_until_s = nil
        @cause = nil
        @news = nil
      end

      # Returns true if a connection exists or can be made.
      def alive?
        connection || connect
        true
      rescue NoServerError
        false
      end

      # Returns true for `down_retry_delay` seconds after too many failures.
      def down? = @down_until_s ? Clock.now < @down_until_s : false

      # Closes all connections. Fails the calls that wait for replies.
      def close
        forget.each { |connection| finish(connection) }
        close_later_ones
        @down_until_s = nil
        nil
      end

      # Runs a command. If `how` is :send, :hold or :drop, only starts its call.
      def carry_out(command, how = nil)
        exchange(command.name, command.verb, command.key, command.flags, command.bytes, command.value_flags, command.ttl, how)
      end

      # Sends together all calls that the block starts with :hold, even if the block raises.
      def self.together(servers)
        yield
      ensure
        servers.each(&:release)
      end

      def inspect = "#<#{self.class} #{name}#{" down" if down?}>"

      # A connection failed during a call. The client decides on a retry.
      class Failed < StandardError
        # Repeats the block as long as retries are allowed, then raises the last failure. A retry
        # may choose another server. `idempotent` means that the call may run twice.
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

        # A sent command is not repeated after a malformed reply. If the server is down and never
        # replied on this connection, only another server can run the call.
        def retry?(idempotent, failures)
          return elsewhere?(idempotent, failures) if @down && !@answered

          !@down && failures < @limit && repeatable?(idempotent)
        end

        # Returns the failure for a command of which nothing was sent.
        def before(command) = Failed.new(@error.class.new(message.sub("greeting", command.to_s)), false, @down, @answered, @limit)

        # Raises the error for the caller, without Failed as its cause.
        def raise_to_caller = raise(@error, cause: cause)

        # Returns true if another server may run the call while this server is down.
        def elsewhere?(idempotent, failures) = @down && failures <= @limit && repeatable?(idempotent)

        private

        def repeatable?(idempotent) = !@sent || (idempotent && !@error.is_a?(ProtocolError))
      end

      private

      # Called by the extension if none is connected. A blocking fiber of a loop's thread does
      # not take the lock, because another fiber of the same thread may hold the lock.
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
          connected = adopt(Connection.new(open, name, @options[:socket_timeout]))
          @news = [:info, "memcached #{name} is back"] if @down_until_s
          @down_until_s = nil
          connected
        rescue SystemCallError, SocketError, IOError, TimeoutError, TLS::Error, Gyre::ProtocolError, NetworkError => error
          @cause = error.message
          attempts = attempts.to_i + 1 # of this call: others may succeed meanwhile
          raise NoServerError, "No server available: #{@cause}" if count_failure || attempts >= @options.failures_limit

          sleep(@options[:socket_failure_delay]) if @options[:socket_failure_delay]
          retry
        end
      end

      # Returns true if the server now counts as down.
      def count_failure
        return false if (self.failures += 1) < @options.failures_limit

        self.failures = 0
        @down_until_s = Clock.now + @options[:down_retry_delay]
        @news = [:warn, "memcached #{name} is down: #{@cause}; the next attempt is in #{@options[:down_retry_delay]} s"]
        true
      end

      # Called without the lock, because a logger may wait.
      def report_news
        level, text = @news
        @news = nil
        @options.logger&.public_send(level, text) if text
      end

      # Called by the extension before the first value on a connection.
      def check_version(connection, command)
        version = line(:greeting, "version\r\n", nil).first.to_s
        numbers = VERSION.match(version)&.captures&.map(&:to_i)
        return connection.allow_stores unless numbers && (numbers <=> VERSION_LEAST).negative?

        raise CommandError, "#{command} at memcached #{name}: its version is #{version}, and values need memcached 1.6.10 or newer"
      rescue Failed => error
        raise error.before(command)
      end

      def open
        transport = Gyre.connect(@address.endpoint, tls: @options.tls, timeout_s: @options.connect_timeout_s)
        log_in(transport) if @user
        opened = transport
      ensure
        transport&.abandon unless opened
      end

      # `memcached -Y` takes name and password as the first `set` (doc/protocol.txt,
      # "Authentication"). A server without -Y would store the password; it answers `version` and is
      # sent no password.
      def log_in(transport)
        transport.read_timeout_s = transport.write_timeout_s = @options[:socket_timeout]
        transport.write("version\r\n")
        return if transport.gets("\r\n")&.start_with?("VERSION ")

        words = "#{@user} #{@password}"
        transport.write("set auth 0 0 #{words.bytesize}\r\n#{words}\r\n")
        reply = transport.gets("\r\n", chomp: true)
        raise NetworkError, "log in to memcached at #{name} as #{@user}: #{reply || "it closed the connection"}" if reply != "STORED"
      end

      # Closes a forked child's copies of the parent's connections; the child opens new ones.
      def renew_after_fork
        @pid = Process.pid
        @lock = Thread::Mutex.new
        @down_until_s = nil
        [*forget, *@closing].each(&:close)
        @closing = []
      end

      # Called by the extension for each call on a failed connection. The failure counts once.
      # `answered` means that the server has replied on this connection. Calls that {#close} has
      # ended (`cause` is :closed) are not repeated.
      def fail_call(command, cause, reason, sent, answered)
        broken = sweep
        @cause = reason
        down = cause == :closed || (broken.any? && count_failure && down?) # before others run, which a close may let
        broken.each { |connection| finish(connection) }
        error = (cause == :broken ? ProtocolError : NetworkError).new("#{command} at memcached #{name}: #{reason}")
        close_later_ones
        report_news if @news
        raise Failed.new(error, sent, down, answered, cause == :closed ? 0 : @options.failures_limit)
      end

      def finish(connection) = connection.close || @closing << connection

      # Closes connections that could not be closed earlier, because another thread used them.
      def close_later_ones
        @closing.size.times do
          connection = @closing.shift or break
          finish(connection)
        end
      end

      # Called by the extension for an error reply of the server.
      def refuse_call(command, text)
        raise text.start_with?("SERVER_ERROR") ? ServerError : CommandError, "#{command} at memcached #{name}: #{text}"
      end
    end
  end
end
