# frozen_string_literal: true

# The HTTP client (`require "gyre/http/client"`) for tasks, fibers and threads: Gyre::HTTP.get and
# Gyre::HTTP::Client. Chooses pools, builds requests, follows redirects, repeats safe requests.

require "gyre/http/client/app"
require "gyre/http/client/cookies"
require "gyre/http/client/home"
require "gyre/http/client/limits"
require "gyre/http/client/origin"
require "gyre/http/client/pool"
require "gyre/http/client/report"
require "gyre/http/client/request"
require "gyre/http/client/response"
require "gyre/http/namespace"
require "gyre/version"

module Gyre
  module HTTP
    # Keeps a pool of connections for each origin and each thread's loop. Threads without a loop
    # share a pool for each origin. Fibers and threads may share a client.
    class Client
      REDIRECTS = [301, 302, 303, 307, 308].freeze
      SKIMMED_BYTES = 65_536
      ADDRESS = %r{\A(?:https?:/)?/}i.freeze
      LATER = [429, 503].freeze
      # Multiplies retries_limit for requests that the server did not process: they cost it nothing.
      # A burst on a new HTTP/2 connection may exceed limits that the client does not know yet.
      REFUSALS = 5
      Options = Struct.new(:limits, :tls, :http2, :proxy, :socket, :private_addresses)
      private_constant :REDIRECTS, :SKIMMED_BYTES, :ADDRESS, :LATER, :REFUSALS, :Options

      # @param base_url [String, #call, nil] prefix of relative addresses, or a Rack app
      # @param headers [Hash{String => String}] of each request
      # @param basic [Array(String, String), nil] name and password for base_url's origin
      # @param bearer [String, nil] token for base_url's origin
      # @param cookies [Boolean] whether to keep cookies and send them back
      # @param tls [TLS::Context, nil] for certificates; HTTP/2 needs its `alpn: %w[h2 http/1.1]`
      # @param http2 [Boolean, nil] true: also without TLS, by prior knowledge; false: never
      # @param proxy [String, Symbol, nil] host:port, also with http:// and user:password@;
      #   :environment: its variables
      # @param socket [String, nil] path of a Unix socket to which all requests go
      # @param private_addresses [Boolean] false: refuses servers in private networks
      # @param instrument [#call, nil] gets each request's {Report}; nil: $stderr under GYRE_DEBUG
      # @param limits [Hash] see {Limits}
      # @raise [ArgumentError]
      def initialize(base_url = nil, headers: {}, basic: nil, bearer: nil, cookies: false, tls: nil, http2: nil, proxy: :environment,
                     socket: nil, private_addresses: true, instrument: nil, **limits)
        @limits = Limits.new(**limits)
        @app, base_url, proxy = base_url, "http://localhost" if base_url.respond_to?(:call)
        @options = Options.new(@limits, tls, http2, proxy, socket, private_addresses)
        @scheme, @host, @port, user, path = Origin.split(base_url) if base_url
        @path = path&.delete_suffix("/")
        @headers = { "user-agent" => "Gyre/#{VERSION}", "accept" => "*/*", "accept-encoding" => Decoders.accepted, **plain(headers) }
        @headers["authorization"] = authorization(basic, bearer, user) if basic || bearer || user
        @cookies = Cookies.new if cookies
        @instrument = instrument || (->(report) { warn("gyre: #{report}") } unless ENV["GYRE_DEBUG"].to_s.empty?)
        @homes = {}.compare_by_identity
        @lock = Thread::Mutex.new
      end

      # Sends a GET request; see {#request}.
      def get(url, ...) = request("GET", url, ...)
      # Sends a HEAD request; see {#request}.
      def head(url, ...) = request("HEAD", url, ...)
      # Sends a DELETE request; see {#request}.
      def delete(url, ...) = request("DELETE", url, ...)
      # Sends a POST request; see {#request}.
      def post(url, body = nil, **options, &block) = request("POST", url, body: body, **options, &block)
      # Sends a PUT request; see {#request}.
      def put(url, body = nil, **options, &block) = request("PUT", url, body: body, **options, &block)
      # Sends a PATCH request; see {#request}.
      def patch(url, body = nil, **options, &block) = request("PATCH", url, body: body, **options, &block)

      # Sends a request and reads the whole body, up to body_bytes_limit. If a block is given,
      # yields the response instead, streams its body and drops the unread rest.
      # @param method [String, Symbol]
      # @param url [String] http://…, https://…, or a path below base_url
      # @option options [String, IO, #each, nil] :body an IO or an object with each streams
      # @option options [Hash{String => String, nil}] :headers nil omits a usual one
      # @option options [Hash, nil] :query added to the address
      # @option options [Object, nil] :json the body
      # @option options [Hash, nil] :form the body, as an HTML form
      # @option options [Hash, nil] :multipart Strings, IOs, Hashes (content:, filename:)
      # @option options [Numeric, nil] :timeout_s for the whole request; or :timeout, as in {Limits}
      # @option options [#call, nil] :interim gets status and headers of each interim response (103)
      # @yieldparam response [Response]
      # @return [Response, Object] or the block's value
      # @raise [Error]
      # @raise [ArgumentError] the address, a header or the body is not one
      def request(method, url, ...)
        response = respond(method, url, ...)
        block_given? ? yield(response) : response.load
      ensure
        response&.close
      end

      # Returns the response as soon as its head has arrived. The caller must read or close the
      # response. A forgotten response is cancelled when Ruby collects it.
      # @param options [Hash] see {#request}
      # @return [Response]
      # @raise [Error, ArgumentError]
      def stream(method, url, **options) = respond(method, url, **options)

      # Sends GET requests concurrently; yields responses as they arrive. An error of the block ends
      # all.
      # @param urls [Enumerable<String>]
      # @param limit [Integer] concurrent requests, and responses that wait for the block
      # @param on_error [#call, nil] gets each {Error} of a request; nil: raises the first and stops
      # @yieldparam response [Response]
      # @yieldparam url [String] the given address
      # @return [nil]
      # @raise [Error]
      def fan_out(urls, limit: 16, on_error: nil, **options, &block)
        Gyre.run do |task|
          outcomes = Thread::Queue.new
          left = urls.to_a.dup
          expected = left.size
          places = Semaphore.new([limit, 1].max)
          workers = Array.new([[limit, 1].max, expected].min) { task.async { outcomes.push(fetch(left, places, options)) until left.empty? } }
          expected.times do
            outcome = outcomes.shift
            places.release
            deliver(*outcome, on_error, block)
          end
        ensure
          workers&.each(&:stop)
        end
      end

      # Closes kept connections. A later request connects again.
      # @return [nil]
      def close = @homes.each_value(&:close) && nil

      # @return [String] without credentials
      def inspect = "#<#{self.class}#{" #{@scheme}://#{@host}:#{@port}#{@path}" if @host}>"

      private

      def plain(headers) = headers.to_h { |name, value| [name.to_s.downcase, value.is_a?(Array) || value.nil? ? value : value.to_s] }

      def authorization(basic, bearer, user)
        return "Bearer #{bearer}" if bearer

        Origin.basic(*(basic || user.split(":", 2).map { |word| Proxy.decode(word) }))
      end

      def respond(method, url, body: nil, headers: nil, query: nil, json: nil, form: nil, multipart: nil, timeout_s: @limits.timeout_s,
                  timeout: timeout_s, interim: nil, &)
        request = make(method, url, headers, query, timeout)
        request.carry(body, json, form, multipart) unless body.nil? && json.nil? && form.nil? && multipart.nil?
        run(request, interim)
      end

      def make(method, url, headers, query, timeout_s)
        headers &&= plain(headers)
        tunnel = headers&.key?("upgrade") # a proxy drops this field
        if @host && !url.match?(%r{\A[a-z]+://}i)
          pool = pool_of(@scheme, @host, @port, tunnel)
          url = url[/\A[^#]*/] if url.include?("#")
          target = url.start_with?("/", "?") || url.empty? ? "#{@path}#{url}" : "#{@path}/#{url}"
          target = "/#{target}" unless target.start_with?("/")
          target = url if url == "*" && method.to_s.casecmp?("OPTIONS") # RFC 9110, section 9.3.7
        else
          scheme, host, port, user, target = Origin.split(url)
          pool = pool_of(scheme, host, port, tunnel)
        end
        target = "#{target}#{target.include?("?") ? "&" : "?"}#{Request.encode(:query, query)}" if query
        headers = { **(headers || {}), "authorization" => authorization(nil, nil, user) } if user
        method = method.to_s.upcase unless method.is_a?(String)
        Request.new(method, pool, target, timeout_s && (Clock.now + timeout_s), headers)
      end

      def pool_of(scheme, host, port, tunnel = nil)
        home = @homes[Fiber.current_scheduler] || home_of(Fiber.current_scheduler)
        key = base?(scheme, host, port) ? :base : [scheme, host, port]
        key = [key, :tunnel] if tunnel
        home[key] || home.add(key) { new_pool(scheme, host, port, home, tunnel) }
      end

      def home_of(scheduler)
        @lock.synchronize do
          homes = @homes.dup
          gone = homes.keys.select { |other| other.respond_to?(:closed?) && other.closed? }
          gone.each { |other| homes.delete(other).close }
          home = homes[scheduler] ||= Home.new(scheduler, @limits)
          @homes = homes
          home
        end
      end

      def base?(scheme, host, port) = host == @host && scheme == @scheme && port == @port

      # If there is a base_url, only its origin gets the secret fields.
      def new_pool(scheme, host, port, home, tunnel)
        fields = @host.nil? || base?(scheme, host, port) ? @headers : @headers.except(*Request::SECRET)
        origin = Origin.new(scheme, host, port, @options, tunnel: tunnel)
        @app ? App.new(@app, origin, fields) : Pool.new(origin, fields, home)
      end

      # Adds cookies to a copy of the request, so that a redirect does not inherit them.
      def with_cookies(request)
        text = @cookies&.header(request.pool.origin, request.target) or return request
        request.with("cookie" => [request.fields["cookie"], text].compact.join("; "))
      end

      # --- from a request to its response ---

      # Uses `while`, because a return out of a block is a throw, which would slow each request.
      # Whatever is raised meanwhile, a response that is not returned is closed.
      def run(request, interim)
        redirects = pauses = 0
        while (response = perform(with_cookies(request), interim))
          @cookies&.store(request.pool.origin, request.target, response["set-cookie"] || [])
          if pauses < @limits.retries_limit && (pause_s = pause_before(request, response))
            pauses += 1
            response.skim(SKIMMED_BYTES)
            next sleep(pause_s)
          end
          location = location_of(response, request) or return (returned = response)
          response.skim(SKIMMED_BYTES)
          redirects += 1
          raise stray("more than #{@limits.redirects_limit} redirects (redirects_limit)", request) if redirects > @limits.redirects_limit

          request = redirect(request, response.status, location)
        end
      ensure
        response&.close unless returned
      end

      # Equal lines of a broken proxy count once, an empty line not at all. A comma may also be part
      # of an address.
      def location_of(response, request)
        return unless @limits.redirects_limit.positive? && REDIRECTS.include?(response.status) && (location = response["location"])

        first, *others = location.split(", ").uniq
        raise stray("the redirect has several addresses", request) if others.any?(ADDRESS)

        others.empty? ? first : location
      end

      # Returns the seconds of Retry-After if the request may be sent again after that time.
      def pause_before(request, response)
        return unless @limits.retry_after_s && LATER.include?(response.status) && request.safe?

        pause_s = response.retry_after_s
        pause_s if pause_s && pause_s <= @limits.retry_after_s && (request.until_s.nil? || Clock.now + pause_s < request.until_s)
      end

      def redirect(request, status, location)
        tunnel = request.fields.key?("upgrade")
        url = Origin.resolve(request.pool.origin.url, request.target, location).to_s
        url = url.sub(/\Aws/i, "http") if tunnel
        scheme, host, port, _user, target = Origin.split(url)
        raise stray("a redirect from https to http is not followed", request) if request.pool.origin.tls? && scheme == "http"

        following = request.redirected(status, pool_of(scheme, host, port, tunnel), target)
        raise stray("the body cannot be sent again to #{following.url}", request) unless following.repeatable?

        following
      rescue ArgumentError
        # Omits the cause, which would show the address.
        raise stray("the redirect's address is not one", request), cause: nil
      end

      def stray(message, request) = RedirectError.new(message, *request.name, :redirect)

      def perform(request, interim)
        report = Report.new(request, @instrument) if @instrument || Tally.counting?
        exchange = attempt(request, interim, report)
        report&.head
        response = Response.new(request, exchange, report)
      ensure
        request.pool.give(request) unless response # again, if an exception has ended the attempt's end
      end

      # Returns the exchange with the response's head.
      def attempt(request, interim, report)
        pool = request.pool
        tries = 0
        begin
          exchange = connection = nil
          connection = pool.take(request, request.safe? && @limits.retries_limit.positive?)
          used = connection.used?
          report&.connected(connection)
          exchange = connection.request(request.method, request.sent_target, request.fields, request.body, request.until_s, &interim)
        rescue Unanswered => error
          # A try on a stale connection, which has sent nothing, does not count.
          tries += 1 unless used && !error.processed? && connection.closed?
          pool.give(request)
          retry if request.repeatable? && tries <= @limits.retries_limit * (error.processed? ? 1 : REFUSALS) &&
                   (!error.processed? || (used && request.idempotent?))
          raise failed(error.error, request, :send, report)
        rescue *FAILURES => error
          raise failed(error, request, phase(error, connection), report)
        rescue SourceFailed => error
          report&.finish(error.cause)
          raise error.cause
        ensure
          pool.give(request) unless exchange
        end
      end

      def phase(error, connection)
        return :send if connection

        error.is_a?(Pool::Exhausted) ? :pool : :connect
      end

      def failed(error, request, phase, report)
        error = Client.wrap(error, request, phase)
        report&.finish(error)
        error
      end

      # Takes a place, which the outcome keeps until the block gets it.
      def fetch(left, places, options)
        url = left.shift
        places.acquire
        [get(url, **options), url]
      rescue StandardError => error
        [error, url]
      end

      def deliver(outcome, url, on_error, block)
        if outcome.is_a?(Response) then block.lambda? && block.arity == 1 ? block.call(outcome) : block.call(outcome, url)
        elsif on_error && outcome.is_a?(Error) then on_error.call(outcome)
        else raise(outcome)
        end
      end
    end
  end
end
