# frozen_string_literal: true

# The clients that bench/client compares, each with the same pieces of work: many GETs at once over
# kept connections, a large body down and up. Loaded by the measured processes. Gems are required
# only when asked for. Each piece of work checks its responses.

require "openssl"

module Bench
  # HTTP clients by name.
  module ClientWork
    # Names in the report.
    LABELS = {
      "h2load" => "h2load (C)",
      "gyre" => "Gyre, tasks",
      "gyre-threads" => "Gyre, threads without a loop",
      "async-http" => "async-http",
      "net-http-gyre" => "Net::HTTP kept, in fibers on Gyre",
      "net-http" => "Net::HTTP kept, in threads",
      "httpx" => "httpx, persistent",
      "http.rb" => "http.rb, persistent, in threads",
      "typhoeus" => "Typhoeus, a hydra"
    }.freeze

    # A response that is not the expected one.
    class Wrong < StandardError; end

    module_function

    def create(name, url, protocol)
      { "gyre" => Gyre, "gyre-threads" => GyreThreads, "async-http" => AsyncHTTP, "net-http-gyre" => NetHTTPOnGyre, "net-http" => NetHTTP,
        "httpx" => HTTPX, "http.rb" => HTTPRB, "typhoeus" => Typhoeus }.fetch(name).new(url, protocol)
    end

    def check(body, bytes)
      size = body.is_a?(Integer) ? body : body.bytesize
      raise Wrong, "#{size} bytes instead of #{bytes}" unless size == bytes
    end

    # Runs in threads, each with a connection of its own; `protocol` is :http1, :tls or :http2.
    class Client
      def initialize(url, protocol)
        @url = url
        @protocol = protocol
      end

      def around = yield

      # `count` GETs, `at_once` at a time.
      def get(path, count, at_once, bytes)
        each_at_once(at_once) do
          with_connection { |connection| (count / at_once).times { ClientWork.check(body(connection, path), bytes) } }
        end
      end

      # GETs of several paths at once.
      def fan_out(paths, bytes)
        left = paths.dup
        each_at_once(paths.size) { with_connection { |connection| ClientWork.check(body(connection, left.shift), bytes) } }
      end

      private

      def each_at_once(count, &block) = Array.new(count) { Thread.new(&block) }.each(&:value)
      def tls? = @protocol != :http1
      def unverified = OpenSSL::SSL::SSLContext.new.tap { |context| context.verify_mode = OpenSSL::SSL::VERIFY_NONE }
    end

    # Gyre's client in tasks.
    class Gyre < Client
      def initialize(...)
        super
        require "gyre"
        require "gyre/http/client"
        @tls = ::Gyre::TLS.client(verify: false, alpn: @protocol == :http2 ? %w[h2] : []) if tls?
        @client = client
        @others = []
      end

      def around(&block) = ::Gyre.run { block.call }
      def down(path)
        bytes = 0
        @client.get(path) { |response| response.each { |piece| bytes += piece.bytesize } }
        bytes
      end

      # Leaves `count` new kept connections behind, and no fibers.
      def hold(path, count)
        @others << other = client
        Array.new(count) { other.stream("GET", path) }.each(&:body)
      end

      def up(path, io) = @client.put(path, io).body

      private

      def client = ::Gyre::HTTP::Client.new(@url, tls: @tls, proxy: nil, connections_limit: 10_000, timeout_s: nil)
      def each_at_once(count, &block) = ::Gyre::Task.current.then { |task| Array.new(count) { task.async(&block) }.each(&:wait) }
      def with_connection = yield(@client)
      def body(client, path) = client.get(path).body
    end

    # Gyre's client in plain threads.
    class GyreThreads < Gyre
      def around = yield

      private

      def each_at_once(count, &block) = Array.new(count) { Thread.new(&block) }.each(&:value)
    end

    # Samuel Williams' client.
    class AsyncHTTP < Client
      def initialize(...)
        super
        require "async"
        require "async/http"
        require "protocol/http/body/file"
        options = tls? ? { ssl_context: unverified } : {}
        options[:protocol] = Async::HTTP::Protocol::HTTP11 unless @protocol == :http2
        options[:protocol] = Async::HTTP::Protocol::HTTP2 if @protocol == :http2
        unverified.alpn_protocols = %w[h2] if @protocol == :http2
        @endpoint = Async::HTTP::Endpoint.parse(@url, **options)
      end

      def unverified = @unverified ||= super

      def around
        Async do
          @client = Async::HTTP::Client.new(@endpoint)
          @others = []
          yield
        ensure
          [@client, *@others].each(&:close)
        end
      end

      def down(path)
        bytes = 0
        response = @client.get(path)
        response.each { |piece| bytes += piece.bytesize }
        bytes
      end

      def up(path, io) = @client.put(path, {}, Protocol::HTTP::Body::File.new(io)).read.to_s

      def hold(path, count)
        @others << other = Async::HTTP::Client.new(@endpoint)
        Array.new(count) { other.get(path) }.each(&:read)
      end

      private

      def each_at_once(count, &block) = Async::Task.current.then { |task| Array.new(count) { task.async(&block) }.each(&:wait) }
      def with_connection = yield(@client)
      def body(client, path) = client.get(path).read
    end

    # Ruby's own, a kept connection for each thread.
    class NetHTTP < Client
      def initialize(...)
        super
        require "net/http"
        require "uri"
        @uri = URI(@url)
      end

      def down(path)
        bytes = 0
        with_connection { |http| http.request_get(path) { |response| response.read_body { |piece| bytes += piece.bytesize } } }
        bytes
      end

      def hold(path, count)
        @held ||= []
        @held.concat(Array.new(count) { Net::HTTP.start(@uri.host, @uri.port, nil) }.each { |http| body(http, path) })
      end

      def up(path, io)
        request = Net::HTTP::Put.new(path, "content-length" => io.size.to_s)
        request.body_stream = io
        with_connection { |http| http.request(request).body }.to_s
      end

      private

      def with_connection(&block)
        Net::HTTP.start(@uri.host, @uri.port, nil, use_ssl: tls?, verify_mode: OpenSSL::SSL::VERIFY_NONE, &block)
      end

      def body(http, path) = http.get(path, "accept-encoding" => "identity").body
    end

    # The same in fibers of Gyre's scheduler.
    class NetHTTPOnGyre < NetHTTP
      def initialize(...)
        super
        require "gyre"
      end

      def around(&block) = ::Gyre.run { block.call }

      private

      def each_at_once(count, &block) = ::Gyre::Task.current.then { |task| Array.new(count) { task.async(&block) }.each(&:wait) }
    end

    # HoneyryderChuck's client, which takes many addresses at once.
    class HTTPX < Client
      def initialize(...)
        super
        require "httpx"
        alpn = @protocol == :http2 ? %w[h2] : %w[http/1.1]
        @session = ::HTTPX.plugin(:persistent).with(ssl: { verify_mode: OpenSSL::SSL::VERIFY_NONE, alpn_protocols: alpn })
      end

      def get(path, count, at_once, bytes)
        urls = Array.new(at_once) { "#{@url}#{path}" }
        (count / at_once).times { @session.get(*urls).each { |response| ClientWork.check(response.to_s, bytes) } }
      end

      def fan_out(paths, bytes) = @session.get(*paths.map { |path| "#{@url}#{path}" }).each { |response| ClientWork.check(response.to_s, bytes) }
      def down(path) = @session.get("#{@url}#{path}").body.bytesize
      def up(path, io) = @session.put("#{@url}#{path}", body: io).to_s
    end

    # The gem http.
    class HTTPRB < Client
      def initialize(...)
        super
        require "http"
      end

      def down(path)
        bytes = 0
        with_connection { |http| http.get(path).body.each { |piece| bytes += piece.bytesize } }
        bytes
      end

      def up(path, io) = with_connection { |http| http.put(path, body: io).to_s }

      private

      def with_connection
        http = HTTP.persistent(@url)
        yield http
      ensure
        http&.close
      end

      def body(http, path) = http.get(path).to_s
    end

    # libcurl's, which keeps connections in its multi handle.
    class Typhoeus < Client
      def initialize(...)
        super
        require "typhoeus"
      end

      def get(path, count, at_once, bytes)
        hydra = ::Typhoeus::Hydra.new(max_concurrency: at_once)
        count.times { hydra.queue(request(path, bytes)) }
        hydra.run
      end

      def fan_out(paths, bytes)
        hydra = ::Typhoeus::Hydra.new
        paths.each { |path| hydra.queue(request(path, bytes)) }
        hydra.run
      end

      private

      def request(path, bytes)
        request = ::Typhoeus::Request.new("#{@url}#{path}", ssl_verifypeer: false, ssl_verifyhost: 0)
        request.on_complete { |response| ClientWork.check(response.body, bytes) }
        request
      end
    end
  end
end
