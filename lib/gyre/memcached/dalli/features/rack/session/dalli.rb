# frozen_string_literal: true

# Keeps Rack sessions in memcached by Gyre's client, also for Rails' `session_store
# :mem_cache_store`. Loaded by `require "rack/session/dalli"`. Needs rack-session, or Rack 2.

require "rack/session/abstract/id"
require "gyre/memcached/dalli"

module Rack
  module Session
    # Stores each session as one item, whose key is the private form of the session's id. Takes
    # Rack's cookie options, `memcache_server`, and the options of Dalli::Client.
    #
    #   use Rack::Session::Dalli, memcache_server: "127.0.0.1:11211", expire_after: 86_400
    class Dalli < Abstract::PersistedSecure
      # Key in Rack's env; the value is the id of the session that was found or created.
      FOUND = "gyre.memcached.session"

      # The session was deleted during the request, for example by a logout.
      class MissingSessionError < StandardError; end

      # Not frozen, because programs change the options of all sessions here.
      DEFAULT_DALLI_OPTIONS = { namespace: "rack:session" }

      attr_reader :data

      def initialize(app, options = {})
        raise "Rack::Session::Dalli has no option :cache; give it memcache_server: and the client's options" if options[:cache]

        super
        own = DEFAULT_DALLI_OPTIONS.merge(options.reject { |name, _| DEFAULT_OPTIONS.key?(name) })
        @data = ::Dalli::Client.new(own.delete(:memcache_server), own)
        @default_ttl = ttl(@default_options[:expire_after])
      end

      # If the session was deleted meanwhile, responds with a 401 that deletes the cookie.
      def context(env, app = @app)
        body = nil
        super(env, ->(inner) { app.call(inner).tap { |response| body = response[2] } })
      rescue MissingSessionError
        body.close if body.respond_to?(:close)
        gone(env)
      end

      def find_session(request, id)
        available([nil, {}]) do
          session = stored(id)
          unless session
            session = {}
            id = create
          end
          request.set_header(FOUND, id)
          [id, session]
        end
      end

      def write_session(request, id, session, options)
        key = key_of(id)
        return false unless key

        available(false) do
          ttl = ttl(options[:expire_after])
          if request.get_header(FOUND) == id
            raise MissingSessionError unless @data.replace(key, session, ttl)
          else
            @data.set(key, session, ttl)
          end
          id
        end
      end

      def delete_session(_request, id, options)
        available(nil) do
          key = key_of(id)
          @data.delete(key) if key
          unused_id unless options[:drop]
        end
      end

      private

      # If memcached fails, logs the error and returns `otherwise`; the request continues.
      def available(otherwise)
        yield
      rescue ::Dalli::DalliError => error
        ::Dalli.logger.warn("#{self.class}: #{error.class}: #{error.message}")
        otherwise
      end

      # Returns nil for an unreadable session, so that the user gets a new session.
      def stored(id)
        key = key_of(id)
        key && @data.get(key)
      rescue ::Dalli::UnmarshalError => error
        ::Dalli.logger.warn("#{self.class}: a session cannot be read, and a new one begins: #{error.message}")
        nil
      end

      def create
        loop do
          id = unused_id
          return id if @data.add(key_of(id), {}, @default_ttl)
        end
      end

      def unused_id
        loop do
          id = generate_sid
          id = SessionId.new(id) if id.is_a?(String)
          return id unless @data.get(key_of(id))
        end
      end

      def key_of(id) = (id.private_id if id.respond_to?(:private_id))

      # Keeps a session one second longer than its cookie.
      def ttl(expire_after_s) = expire_after_s ? expire_after_s + 1 : 0

      def gone(env)
        options = env[RACK_SESSION_OPTIONS] || @default_options
        cookie = Utils.delete_set_cookie_header(key, { path: options[:path], domain: options[:domain] })
        [401, { "content-type" => "text/plain", "set-cookie" => cookie }, ["Wrong session ID"]]
      end
    end
  end
end
