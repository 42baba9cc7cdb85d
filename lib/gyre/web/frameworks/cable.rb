# frozen_string_literal: true

# Serves Action Cable's connections as Gyre::WebSocket instead of hijacked sockets: without nio4r, a
# thread or a fiber for each. Stands in for three internal parts, which are alike from Rails 7.1 on:
#
#   WebSocket, of a connection or, from Rails 8.2, of its Server::Socket
#                             its driver is a Cable::Socket; events of a cable run one at a time
#   the server's event loop or executor
#                             Cable::EventLoop: fibers and timers of the loop
#   Server::Worker            Cable::Worker: at most worker_pool_size works run at a time, in fibers
#                             and in places of requests_limit
#
# Cable::Stream sends a broadcast as one frame. Another version than the known ones keeps hijacking.
# Installed by Gyre::Web::Server before it listens. Loads no part of Rails, and its own only with
# Action Cable.

require "gyre/web/frameworks/isolation"

module Gyre
  module Web
    module Cable
      # Prepended to the WebSocket class.
      module Driver
        # Keeps Action Cable's own driver for a request that did not come through the server.
        def initialize(env, event_target, event_loop, protocols: ::ActionCable::INTERNAL[:protocols])
          super unless (ours = Gyre::WebSocket.requested?(env))
          @websocket = Socket.new(env, event_target, protocols) if ours
        end
      end

      # Prepended to ActionCable::Server::Base.
      module Server
        def executor
          @executor ||= EventLoop.new { |error| logger.error("#{error.class}: #{error.message}\n#{error.backtrace&.join("\n")}") }
        end

        def event_loop = executor

        # Encodes a ping once for all cables.
        def setup_heartbeat_timer
          @heartbeat_timer ||= executor.timer(::ActionCable::Server::Connections::BEAT_INTERVAL) do
            usual, others = connections.partition { |each| Cable.socket(each)&.usual? }
            Cable.deliver(::ActiveSupport::JSON.encode(type: "ping", message: Time.now.to_i), usual)
            others.each(&:beat)
          end
        end
      end

      # Prepended to ActionCable::Server::Worker.
      module Worker
        def initialize(max_size: 5)
          super
          @places = Semaphore.new(max_size)
        end

        # Runs an event of a cable in its own fiber, so that the cable's actions keep their order,
        # and everything else in a fiber of the loop.
        def async_invoke(receiver, method, *arguments, connection: receiver, &block)
          work = lambda do
            @places.acquire do
              Cable.with_place(connection) { invoke(receiver, method, *arguments, connection: connection, &block) }
            end
          end
          Socket.claim_event(connection) ? work.call : connection.server.executor.post(work)
        end
      end

      module_function

      # Installs the parts when Action Cable's server is loaded, unless the app has set
      # `config.gyre.cable = :hijack`.
      def apply(log)
        return if @log || !defined?(::ActionCable) || !defined?(::ActiveSupport.on_load) || Isolation.setting(:cable).to_s == "hijack"

        @log = log
        ::ActiveSupport.on_load(:action_cable) { Cable.install }
      end

      def install
        %w[broadcast sync/semaphore web/frameworks/cable/event_loop web/frameworks/cable/socket web/frameworks/cable/stream].each do |path|
          require "gyre/#{path}"
        end
        parts = known
        return @log.info("Action Cable #{::ActionCable.version} is not known here: its sockets are hijacked, as on other servers") unless parts

        parts.each { |part, ours| part.prepend(ours) }
        @broadcasts = 0
      end

      # Returns counts for Gyre::Web::Snapshot; nil unless the parts are installed.
      def figures
        return unless @broadcasts

        cables = ::ActionCable.server.connections
        { "open" => cables.size, "subscriptions" => cables.sum { |each| each.subscriptions.identifiers.size }, "broadcasts" => @broadcasts }
      end

      def count_broadcast = @broadcasts += 1

      # Sends a text to the connections' sockets, as one frame. Those of other loops get it there.
      def deliver(text, connections) = Broadcast.deliver_to(connections.filter_map { |each| socket(each)&.raw }, text)

      # Counts a work among the server's requests, as it may take a database connection like them.
      def with_place(connection, &work)
        server = socket(connection)&.server
        server ? server.with_place(&work) : work.call
      end

      # Returns the connection's {Socket}; nil for a connection that has another kind.
      def socket(connection)
        owner = connection.instance_variable_get(:@socket) || connection
        socket = owner.instance_variable_get(:@websocket)&.instance_variable_get(:@websocket)
        socket if socket.is_a?(Socket)
      end

      # True if the methods are Action Cable's own ones in a class of the app.
      def own?(kind, *names) = names.all? { |name| kind.instance_method(name).owner.name&.start_with?("ActionCable::") }

      # Returns Action Cable's parts with ours; nil if one differs from those of Rails 7.1 to 8.2.
      def known
        server, map = ::ActionCable::Server, ::ActionCable::SubscriptionAdapter::SubscriberMap
        owner, websocket = if defined?(server::Socket) then [server::Socket, server::Socket::WebSocket] # from Rails 8.2
                           else [::ActionCable::Connection::Base, ::ActionCable::Connection::WebSocket]
                           end
        same = [[websocket, :initialize, %i[req req req key]], [server::Worker, :async_invoke, %i[req req rest key block]],
                [server::Worker, :initialize, %i[key]], [server::Base, :event_loop, []], [server::Base, :setup_heartbeat_timer, []],
                [server::Base, :connections, []], [map, :broadcast, %i[req req]], [map, :invoke_callback, %i[req req]],
                [::ActionCable::Channel::Base, :worker_pool_stream_handler, %i[req req key]]].all? do |part, name, kinds|
          part.instance_method(name).parameters.map(&:first) == kinds
        end
        { websocket => Driver, server::Base => Server, server::Worker => Worker, map => Stream::Map,
          ::ActionCable::Channel::Base => Stream::Channel, owner => Socket::Request } if same
      rescue NameError
        nil
      end
    end
  end
end
