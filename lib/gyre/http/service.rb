# frozen_string_literal: true

# Runs a Rack app for HTTP exchanges: serves a connection's requests, responds to exceptions, ends
# requests (body.close, rack.response_finished, access log). Called by the acceptor in a pooled
# fiber. #respond sends usual responses; Response sends all others. Never touches a socket.

require "gyre/clock"
require "gyre/http/response"

module Gyre
  module HTTP
    class Service
      # Exceptions that end process, task or thread. `exit` in an app ends only its request.
      PASSED_ON = [SignalException, Gyre::Stop].freeze
      # Errors of writes to a client that has gone. Ignored if the connection is closed or hijacked.
      GONE = [Errno::EPIPE, Errno::ECONNRESET, Errno::ETIMEDOUT, WriteTimeout].freeze
      PLAIN_TEXT = "text/plain"
      # Status in the access log if the client closed before the response (as in nginx).
      NO_STATUS = 499
      # Labels a fiber in a watchdog's report with the request that it runs.
      Work = Struct.new(:env) do
        def label = "the request #{env["REQUEST_METHOD"]} #{env["PATH_INFO"]}"
      end

      attr_writer :watched

      # `access_log` gets (env, status, body bytes, seconds) after each request. The status is nil
      # after a full hijack.
      def initialize(app, log:, access_log: nil, open_responses: OpenResponses.new, proxy_times: nil)
        @app = app
        @proxy_times = proxy_times
        @open_responses = open_responses
        @watched = false
        @log = log
        @access_log = access_log
      end

      # Serves the connection's requests. Afterwards the connection is idle, closed or hijacked.
      # (A break would make an exception object in each call.)
      def call(exchange)
        env = exchange.next_request
        while env
          respond(exchange, env)
          if (env = exchange.next_request)
            exchange = env["rack.hijack"] # each request has its own exchange
            Job.clear # it may be another user's, from a proxy
          end
        end
        returned = true
      rescue Gyre::Stop
        nil # ends the fiber, which serves only this connection
      ensure
        exchange.close unless returned
      end

      def hijacked(socket, away) = @open_responses.hijacked(socket, away)

      # Responds to a refused head, which the app never sees.
      def refused(exchange, env, status, reason)
        started = Clock.now
        refuse(exchange, env, status, reason, status == 503 ? { "retry-after" => "1" } : {})
      ensure
        @access_log&.call(env, status, exchange.body_bytes_sent, Clock.now - started)
      end

      def error(message) = @log.error(message)

      private

      # The hot path: app.call, write_response, finish.
      def respond(exchange, env)
        Thread.current[:gyre_work] = Work.new(env) if @watched
        started = Clock.now if @access_log
        @proxy_times.add(env) if env["HTTP_X_REQUEST_START"] && @proxy_times
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
        exchange.close unless done # this fiber or the whole thread is being ended
        close(env, body) if body.respond_to?(:close)
        callables = env["rack.response_finished"]
        finished(callables, exchange, env, status, headers, error) unless callables.nil? || callables.empty?
        callables = env["rack.after_reply"]
        replied(callables, env) unless callables.nil? || callables.empty?
        @access_log&.call(env, sent || logged(exchange, env, status), exchange.body_bytes_sent, Clock.now - started)
      end

      # Returns the status for the log. If the app itself responds on a hijacked socket, the status
      # is nil, or 101 for an upgrade.
      def logged(exchange, env, status)
        return status || NO_STATUS unless exchange.hijacked? && !exchange.head_sent?

        env.key?("HTTP_UPGRADE") ? 101 : nil
      end

      def close(env, body)
        body.close
      rescue *PASSED_ON
        raise
      rescue Exception => error # rubocop:disable Lint/RescueException
        report(env, error, "the body's close")
      end

      # Calls all of `callables` in reverse order (Rack SPEC), even if one raises. After a full
      # hijack the status is nil, and a failed write is ignored.
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

      # Calls all of `callables`, as Puma, Unicorn and Pitchfork do.
      def replied(callables, env)
        callables.each do |callable|
          callable.call
        rescue *PASSED_ON
          raise
        rescue Exception => error # rubocop:disable Lint/RescueException
          report(env, error, "rack.after_reply")
        end
      end

      # True for an `exit` in another thread, which must end the server. Ruby raises it in the fiber
      # that runs in the main thread.
      def foreign?(error) = error.backtrace&.none? { |line| line.start_with?(__FILE__) }

      # Responds to an exception of the app or the client. Returns the sent status, or nil.
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

      # Sends an error response. If a response has begun, visibly truncates it instead.
      def refuse(exchange, env, status, reason, headers = {})
        if exchange.head_sent?
          cut(exchange, env)
        else
          exchange.write_response(status, { "content-type" => PLAIN_TEXT, **headers }, ["#{reason}\n"])
          status
        end
      rescue SystemCallError, WriteTimeout
        nil # the client is gone
      end

      # Closes the connection; resets it for HTTP/1.0, where only a reset shows the truncation.
      def cut(exchange, env) = env["SERVER_PROTOCOL"] == "HTTP/1.0" ? exchange.reset : exchange.close

      def report(env, error, where)
        request = "#{env["REQUEST_METHOD"]} #{env["PATH_INFO"]}"
        @log.error("#{request}: unhandled in #{where}: #{error.full_message(highlight: false, order: :top)}")
        nil
      end
    end
  end
end
