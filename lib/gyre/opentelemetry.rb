# frozen_string_literal: true

# Joins OpenTelemetry's traces: `require "gyre/opentelemetry"` in a program that has the gem
# opentelemetry-sdk. docs/observe.md has what it adds and what it costs.

raise LoadError, "gyre/opentelemetry needs Ruby 3.2 or newer: contexts are kept in fiber storage" unless Fiber.method_defined?(:storage)

require "gyre/http/client"
require "gyre/http/route"
require "gyre/memcached"
require "gyre/offload/blocking"
require "gyre/sse"
require "opentelemetry"

module Gyre
  # What OpenTelemetry's own instrumentations cannot know. The spans of a server's requests are
  # those of opentelemetry-instrumentation-rack.
  module Tracing
    # Limit in seconds for the last spans of a process to reach the collector.
    FLUSH_TIMEOUT_S = 5

    class << self
      # @return [OpenTelemetry::Trace::Tracer]
      # @api private
      def tracer = @tracer ||= ::OpenTelemetry.tracer_provider.tracer("gyre", VERSION)

      # @return [OpenTelemetry::Trace::SpanContext, nil]
      # @api private
      def span_context
        context = ::OpenTelemetry::Trace.current_span.context
        context if context.valid?
      end

      # Runs the block in a span of its own trace, linked to the request that `origin` belongs to.
      # @api private
      def linked(name, origin)
        links = origin && [::OpenTelemetry::Trace::Link.new(origin)]
        ::OpenTelemetry::Context.with_current(::OpenTelemetry::Context::ROOT) { tracer.in_span(name, links: links) { yield } }
      end
    end

    # Keeps contexts in fiber storage, which tasks, fibers, threads, enumerators and Gyre.blocking
    # inherit, and which ends with a request or task. The gem keeps them in a fiber's attribute.
    # A parent keeps its own context when a child attaches another.
    module Contexts
      KEY = :gyre_opentelemetry
      Node = Struct.new(:context, :below)
      private_constant :KEY, :Node

      def current = Fiber[KEY]&.context || self::ROOT

      def attach(context) = Fiber[KEY] = Node.new(context, Fiber[KEY]).freeze

      # Drops what was attached after the token, too. The token of another fiber changes nothing.
      def detach(token)
        node = top = Fiber[KEY]
        node = node.below until node.nil? || node.equal?(token)
        Fiber[KEY] = node.below if node
        matched = token.equal?(top) && !top.nil?
        ::OpenTelemetry.handle_error(exception: self::DetachError.new("detach without its attach in this fiber")) unless matched
        matched
      end

      def clear = Fiber[KEY] = nil
    end

    # A span for each request of the client, also for those after a redirect. The server gets its
    # `traceparent`.
    module ClientSpans
      private

      def perform(request, interim)
        origin = request.pool.origin
        attributes = { "http.request.method" => request.method, "url.full" => request.name.last, "server.address" => origin.host,
                       "server.port" => origin.port }
        Tracing.tracer.in_span(request.method, attributes: attributes, kind: :client) do |span|
          ::OpenTelemetry.propagation.inject(carrier = {})
          super(request.with(carrier), interim).tap { |response| status(span, response.status) }
        end
      end

      def status(span, status)
        span.set_attribute("http.response.status_code", status)
        return if status < 400

        span.set_attribute("error.type", status.to_s)
        span.status = ::OpenTelemetry::Trace::Status.error
      end
    end

    # A span for each call of the memcached client, without keys and values.
    module MemcachedSpans
      (Memcached::Pipeline::METHODS + %i[get_multi get_multi_cas set_multi delete_multi pipeline flush]).each do |name|
        class_eval <<~RUBY, __FILE__, __LINE__ + 1
          def #{name}(...)                                                           # def get(...)
            attributes = { "db.system.name" => "memcached", "db.operation.name" => "#{name}" }
            Tracing.tracer.in_span("#{name}", attributes: attributes, kind: :client) { super(...) }
          end                                                                        # end
        RUBY
      end
    end

    # The block of a WebSocket or an event stream goes on after its request's span.
    module BlockSpans
      def initialize(block, **options)
        origin = Tracing.span_context
        super(->(socket) { Tracing.linked("#{socket.class.name.split("::").last} session", origin) { block.call(socket) } }, **options)
      end
    end

    # Each event of a WebSocket's handler has a span.
    module HandlerSpans
      def open(env, handler = nil, **options, &block)
        super(env, handler && Handler.new(handler, Tracing.span_context), **options, &block)
      end
    end

    # Passes events on to a handler.
    # @api private
    class Handler
      def initialize(handler, origin)
        @handler = handler
        @origin = origin
      end

      def respond_to_missing?(name, all = false) = @handler.respond_to?(name, all)

      def method_missing(name, *arguments)
        @handler.respond_to?(name) ? Tracing.linked("WebSocket #{name}", @origin) { @handler.public_send(name, *arguments) } : super
      end
    end

    # Rack middleware, to be used below OpenTelemetry's own: names the span's route, and keeps the
    # trace's id for the access log, as `%{gyre.trace_id}e`. Rails has it already.
    class Middleware
      def initialize(app)
        @app = app
      end

      def call(env)
        span = ::OpenTelemetry::Trace.current_span
        env["gyre.trace_id"] = span.context.hex_trace_id if span.context.valid?
        @app.call(env)
      ensure
        route = span&.recording? && HTTP::Route.of(env)
        span.set_attribute("http.route", route) if route
      end
    end

    # Puts the ids of the present span before messages. For the formatter of a Logger or of
    # Gyre::Log:
    #
    #   logger.formatter = Logger::Formatter.new.extend(Gyre::Tracing::Ids)
    module Ids
      def call(severity, time, program, message)
        context = Tracing.span_context
        message = "trace_id=#{context.hex_trace_id} span_id=#{context.hex_span_id} #{message.is_a?(String) ? message : message.inspect}" if context
        super
      end
    end

    ::OpenTelemetry::Context.singleton_class.prepend(Contexts)
    HTTP::Client.prepend(ClientSpans)
    Memcached::Client.prepend(MemcachedSpans)
    WebSocket::Session::Block.prepend(BlockSpans)
    WebSocket.singleton_class.prepend(HandlerSpans)
    # Sends the last spans, also of a worker. A server that itself runs in at_exit goes on with
    # spans.
    at_exit { ::OpenTelemetry.tracer_provider.force_flush(timeout: FLUSH_TIMEOUT_S) if ::OpenTelemetry.tracer_provider.respond_to?(:force_flush) }
    ActiveSupport.on_load(:before_initialize) { config.middleware.use(Middleware) } if defined?(ActiveSupport) && ActiveSupport.respond_to?(:on_load)
  end
end
