# frozen_string_literal: true

# The layer of --cache: keeps responses that the app calls public in memory (a shared cache, RFC
# 9111). It stands outside Compression, so that a body is compressed once for each coding. Only the
# thread of the server's loop calls it.

require "gyre/http/input"
require "gyre/sync/condition"
require "gyre/web/layers/cached_response"

module Gyre
  module Web
    class Cache
      # Methods that change nothing, so that stored responses stay (RFC 9110, section 9.2.1).
      SAFE = %w[GET HEAD OPTIONS TRACE].freeze
      # Responses of one address, which differ by headers of the request (vary).
      VARIANTS_LIMIT = 16
      # Addresses that are remembered because their responses are not to be stored: there no request
      # waits for another.
      PASSING_LIMIT = 4096
      DIRECTIVES_BYTES_LIMIT = 1024
      CONDITIONS = %w[HTTP_IF_NONE_MATCH HTTP_IF_MODIFIED_SINCE].freeze
      # Headers of requests that always go to the app: preconditions of writers, credentials,
      # upgrades.
      BEYOND = %w[HTTP_AUTHORIZATION HTTP_IF_MATCH HTTP_IF_UNMODIFIED_SINCE HTTP_UPGRADE rack.protocol].freeze
      UNSTORED = [504, { "content-type" => "text/plain", "cache-control" => "no-store" }.freeze, ["the cache has no such response\n"].freeze].freeze

      # A request to the app on whose response others wait; also the body of that response, if it
      # comes in parts.
      class Fetch
        # Longest wait for another request.
        WAIT_S = 5
        # Longest wait for a client that takes a part of a body.
        SLOW_S = 0.2

        attr_reader :key
        attr_reader :env # as it was before the app
        attr_reader :began_s

        # The block is called once: with a response to store, or with nil and whether the address
        # has none to store.
        def initialize(key, env, bytes_limit, &store)
          @key = key
          @env = env.dup
          @began_s = Clock.now
          @bytes_limit = bytes_limit
          @store = store
          @settled = Condition.new
        end

        # The response will be an old one.
        def void = @void = true

        # Stores the response, and wakes the requests that wait. Does nothing the second time.
        def settle(response = nil, refused: false)
          return unless @store

          store, @store = @store, nil
          response = nil if @void
          store.call(response, refused)
          @stored = !response.nil?
          @settled.signal
        end

        # Waits for the app, but not for a slow client. Returns whether a response was stored.
        def wait(until_s)
          while @store && (left_s = until_s - Clock.now).positive? && !(@sending_s && Clock.now - @sending_s > SLOW_S)
            @settled.wait(timeout: [left_s, SLOW_S].min)
          end
          @stored
        end

        # Makes this the body.
        def stream(response, body)
          @response = response
          @body = body
          self
        end

        # Passes on each part at once, and stores the body after its end.
        def each
          text = String.new
          @body.each do |part|
            text = nil unless part.is_a?(String) && text && text.bytesize + part.bytesize <= @bytes_limit
            text ? text << part.b : settle(refused: true)
            @sending_s = Clock.now
            yield part
            @sending_s = nil
          end
          settle(@response.complete(text)) if text
        ensure
          settle
        end

        def close
          settle
          @body.close if @body.respond_to?(:close)
        end
      end

      # `bytes_limit`: memory of all responses; `item_bytes_limit`: of a body.
      def initialize(app, bytes_limit:, item_bytes_limit:)
        @app = app
        @bytes_limit = bytes_limit
        @item_bytes_limit = item_bytes_limit
        @resources = {} # address => responses, the newest first; first those that were not used for longest
        @fetches = {}
        @passing = {} # hashes of addresses, because those may be long
        @bytes = @hits = @misses = 0
      end

      def figures = { "hits" => @hits, "misses" => @misses, "bytes" => @bytes }

      def call(env)
        return change(env) unless SAFE.include?(env["REQUEST_METHOD"])
        return @app.call(env) if beyond?(env)

        asked = CachedResponse.directives(env["HTTP_CACHE_CONTROL"])
        return @app.call(env) if asked.key?("no-store")

        key = key(env)
        until_s = Clock.now + Fetch::WAIT_S
        loop do
          variants = find(key)
          response = variants&.find { |variant| variant.variant?(env) }
          return hit(response, env) if response&.answers?(env, asked)
          return UNSTORED.map(&:dup) if asked.key?("only-if-cached")
          return pass(key, env) if @passing.key?(key.hash)

          place = [key, variants && env.values_at(*variants.first.vary.keys)]
          fetch = @fetches[place]
          return leads?(env, response) ? lead(place, response, env) : pass(key, env) unless fetch
          return pass(key, env) unless asked.empty? && fetch.wait(until_s)
        end
      end

      private

      # A body makes a GET another request to some apps. Long directives would take long to read.
      def beyond?(env)
        !%w[GET HEAD].include?(env["REQUEST_METHOD"]) || BEYOND.any? { |name| env[name] } ||
          !(env["rack.input"].nil? || env["rack.input"].equal?(HTTP::Input::EMPTY)) ||
          env["HTTP_CACHE_CONTROL"].to_s.bytesize > DIRECTIVES_BYTES_LIMIT
      end

      def key(env) = env.values_at("rack.url_scheme", "HTTP_HOST", "SERVER_NAME", "SERVER_PORT", "PATH_INFO", "QUERY_STRING")

      # Makes the address the most recently used.
      def find(key)
        variants = @resources.delete(key)
        @resources[key] = variants if variants
      end

      def hit(response, env)
        @hits += 1
        response.answer(env)
      end

      # Calls the app and stores nothing, but notices a response that could be stored.
      def pass(key, env)
        @misses += 1
        status, headers, body = response = @app.call(env)
        if @passing.key?(key.hash) && headers.respond_to?(:each)
          fields = CachedResponse.fields(headers)
          @passing.delete(key.hash) if fits?(fields, body) && CachedResponse.new(env, status.to_i, fields, Clock.now).storable?
        end
        response
      end

      # Whether the app's response to this request may be a whole one for all.
      def leads?(env, stale)
        env["REQUEST_METHOD"] == "GET" && !env["HTTP_RANGE"] && (CONDITIONS.none? { |name| env[name] } || stale&.conditions&.any?)
      end

      # Calls the app while others wait. A `stale` response asks whether it is still the same.
      def lead(place, stale, env)
        @misses += 1
        fetch = @fetches[place] = Fetch.new(place.first, env, @item_bytes_limit) { |*result| settled(place, fetch, *result) }
        conditions = stale ? stale.conditions : {}
        status, headers, body = response = with(conditions, env) { @app.call(env) }
        return response unless headers.respond_to?(:each)

        fields = CachedResponse.fields(headers)
        return revalidated(fetch, stale, fields, body, env) if status.to_i == 304 && conditions.any?

        fresh = CachedResponse.new(fetch.env, status.to_i, fields, fetch.began_s)
        unless fresh.storable? && fits?(fields, body)
          drop(place.first, stale) if stale && status.to_i < 500
          fetch.settle(refused: true)
          return response
        end
        return [status, headers, streamed = fetch.stream(fresh, body)] unless body.respond_to?(:to_ary)

        parts = body.to_ary
        text = parts.map(&:b).join if parts.all?(String)
        text && text.bytesize <= @item_bytes_limit ? fetch.settle(fresh.complete(text)) : fetch.settle(refused: true)
        [status, headers, parts]
      ensure
        fetch.settle unless streamed
      end

      # Calls the block while env has these conditions instead of the client's, which the response
      # to the client depends on later.
      def with(conditions, env)
        return yield if conditions.empty?

        given = env.slice(*CONDITIONS)
        CONDITIONS.each { |name| env.delete(name) }
        env.update(conditions)
        yield
      ensure
        if given
          CONDITIONS.each { |name| env.delete(name) }
          env.update(given)
        end
      end

      # Files are sent by the kernel.
      def fits?(fields, body)
        fields["content-length"].to_i <= @item_bytes_limit && body.respond_to?(:each) && !body.respond_to?(:to_path) && !body.is_a?(HTTP::Files::Body)
      end

      def revalidated(fetch, stale, fields, body, env)
        body.close if body.respond_to?(:close)
        fresh = stale.freshened(fetch.env, fields, fetch.began_s)
        fresh.storable? ? fetch.settle(fresh.complete(fresh.body)) : drop(fetch.key, stale)
        fresh.answer(env)
      end

      def settled(place, fetch, fresh, refused)
        @fetches.delete(place) if @fetches[place].equal?(fetch)
        replace(fetch.key) { |variants| [fresh, *variants.reject { |variant| variant.variant?(fetch.env) }].first(VARIANTS_LIMIT) } if fresh
        return unless refused

        @passing.shift if @passing.size >= PASSING_LIMIT
        @passing[fetch.key.hash] = true
      end

      def drop(key, response) = replace(key) { |variants| variants - [response] }

      def replace(key)
        former = @resources.delete(key) || []
        variants = yield former
        @resources[key] = variants unless variants.empty?
        @bytes += variants.sum(&:bytes) - former.sum(&:bytes)
        @bytes -= @resources.shift.last.sum(&:bytes) while @bytes > @bytes_limit
      end

      # A successful write makes stored responses of its address old, and those on their way (RFC
      # 9111, section 4.4).
      def change(env)
        status, = response = @app.call(env)
        if status.to_i.between?(200, 399)
          key = key(env)
          replace(key) { [] }
          @fetches.delete_if { |_, fetch| fetch.key == key && fetch.void }
        end
        response
      end
    end
  end
end
