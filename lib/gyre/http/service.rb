# frozen_string_literal: true

# Runs a Rack app on HTTP exchanges: the loop over a connection's requests, what an app's exception
# becomes, and the end of a request (body.close, rack.response_finished, access log). The acceptor
# calls it in a pooled fiber whenever a connection has a request. The usual response takes the few
# lines of #respond; everything slower is in Response. It never touches a socket.

require "gyre/errors"
require "gyre/http/errors"
require "gyre/http/response"
require "gyre/http/open_responses"

module Gyre
  module HTTP
    # One app, behind any number of connections.
    class Service
      # What never becomes a response: the end of the process, of the task, of the thread. `exit` in
      # an app is the end of its request.
      PASSED_ON = [SignalException, Gyre::Stop].freeze
      # A client that went away. On a connection that is closed or hijacked they are no fault.
      GONE = [Errno::EPIPE, Errno::ECONNRESET, Errno::ETIMEDOUT, WriteTimeout].freeze
      PLAIN_TEXT = "text/plain"
      # In the access log, when the client left before the app had a response (as nginx has it).
      NO_STATUS = 499
      # What a watchdog calls the fiber that runs a request.
      Work = Struct.new(:env) do
        # @return [String]
        def label
          "the request #{env["REQUEST_METHOD"]} #{env["PATH_INFO"]}"
        end
      end
      private_constant :PASSED_ON, :GONE, :PLAIN_TEXT, :NO_STATUS, :Work

      # @return [Boolean] whether fibers show which request they run; a Watchdog reads it
      attr_writer :watched

      # @param app [#call] a Rack app
      # @param log [#error] takes a String
      # @param access_log [#call, nil] called with (env, status, body bytes sent, seconds) after
      #   each request; a status of nil is that of a hijacked connection
      # @param open_responses [OpenResponses] where responses without an end of their own are
      #   entered
      def initialize(app, log:, access_log: nil, open_responses: OpenResponses.new)
        @app = app
        @open_responses = open_responses
        @watched = false
        @log = log
        @access_log = access_log
      end

      # Serves every request that is there already. The connection then is idle, closed or hijacked
      # (see Exchange).
      #
      # @param exchange [Exchange]
      # @return [void]
      def call(exchange)
        env = exchange.next_request
        while env
          respond(exchange, env)
          env = exchange.next_request
          exchange = env["rack.hijack"] if env # each request is an exchange of its own
        end
        returned = true
      rescue Gyre::Stop
        nil # this fiber is the connection's own, so there is nothing to pass it on to
      ensure
        exchange.close unless returned
      end

      # @param socket [BasicSocket] that has left a connection, from the acceptor
      # @return [void]
      def hijacked(socket)
        @open_responses.hijacked(socket)
      end

      # A request whose head was refused, from the acceptor; the app sees nothing of it.
      #
      # @param env [Hash] REMOTE_ADDR, and of REQUEST_METHOD, REQUEST_URI and SERVER_PROTOCOL what
      #   was understood
      # @param status [Integer]
      # @param bytes [Integer] of body sent
      # @param seconds [Float]
      # @return [void]
      def refused(env, status, bytes, seconds)
        @access_log&.call(env, status, bytes, seconds)
      end

      # @param message [String] one line for the log, from the acceptor
      # @return [void]
      def error(message)
        @log.error(message)
      end

      private

      # The hot path. With nothing special it is app.call, write_response and finish.
      def respond(exchange, env)
        Thread.current[:gyre_work] = Work.new(env) if @watched
        started = now if @access_log
        status, headers, body = @app.call(env)
        exchange.write_response(status, headers, body) || Response.new(exchange, env, status, headers, body, @open_responses).deliver
        done = true
      rescue *PASSED_ON => error
        raise
      rescue Exception => error # rubocop:disable Lint/RescueException -- whatever an app raises, the server lives
        raise if error.is_a?(SystemExit) && foreign?(error)

        sent = failed(exchange, env, error)
        done = true
      ensure
        exchange.close unless done # this fiber, or the whole thread, is being ended
        close(env, body) if body.respond_to?(:close)
        callables = env["rack.response_finished"]
        finished(callables, exchange, env, status, headers, error) unless callables.nil? || callables.empty?
        @access_log&.call(env, sent || logged(exchange, status), exchange.body_bytes_sent, now - started)
      end

      # The response on a hijacked socket is the app's own, whatever it has returned.
      #
      # @return [Integer, nil] nil: unknown
      def logged(exchange, status)
        exchange.hijacked? && !exchange.head_sent? ? nil : status || NO_STATUS
      end

      def close(env, body)
        body.close
      rescue *PASSED_ON
        raise
      rescue Exception => error # rubocop:disable Lint/RescueException
        report(env, error, "the body's close")
      end

      # Rack SPEC: in reverse order; one that raises does not keep the others from running. After a
      # full hijack there is no status, and that nothing could be written is no error.
      def finished(callables, exchange, env, status, headers, error)
        if exchange.hijacked? && !exchange.head_sent?
          status = nil
          error = nil if error.is_a?(Errno::EPIPE)
        end
        callables.reverse_each do |callable|
          callable.call(env, status, headers, error)
        rescue *PASSED_ON
          raise
        rescue Exception => raised # rubocop:disable Lint/RescueException
          report(env, raised, "rack.response_finished")
        end
      end

      # The exit of another thread, which Ruby raises in the main one, whatever fiber runs there: it
      # ends the server.
      def foreign?(error)
        error.backtrace&.none? { |line| line.start_with?(__FILE__) }
      end

      # @return [Integer, nil] the status that the client got instead of the app's
      def failed(exchange, env, error)
        gone = exchange.closed?
        case error
        when RequestError, RequestCut
          return gone ? nil : refuse(exchange, env, error.is_a?(RequestError) ? error.status : 400, error.message)
        when RequestTimeout
          exchange.leave_place
          report(env, error, "the app")
          return gone ? nil : refuse(exchange, env, 503, "the request took too long")
        when *GONE
          return if gone
        end
        report(env, error, "the app")
        refuse(exchange, env, 500, "Internal Server Error") unless gone
      end

      # A response that has begun cannot be taken back: the client has to see that it was cut.
      def refuse(exchange, env, status, reason)
        if exchange.head_sent?
          cut(exchange, env)
        else
          exchange.write_response(status, { "content-type" => PLAIN_TEXT }, ["#{reason}\n"])
          status
        end
      rescue SystemCallError, WriteTimeout
        nil # the client is gone
      end

      # The end of an HTTP/1.0 body is the end of the connection, so only a reset looks different.
      def cut(exchange, env)
        env["SERVER_PROTOCOL"] == "HTTP/1.0" ? exchange.reset : exchange.close
      end

      def report(env, error, where)
        request = "#{env["REQUEST_METHOD"]} #{env["PATH_INFO"]}"
        @log.error("#{request}: unhandled in #{where}: #{error.full_message(highlight: false, order: :top)}")
        nil
      end

      def now
        Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end
    end
  end
end
