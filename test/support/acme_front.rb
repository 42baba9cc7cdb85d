# frozen_string_literal: true

# A server in front of Pebble, which answers some requests otherwise, as other authorities do: times
# of renewal (ARI), limits, refusals, waits. Pebble takes the name in the Host field as its own, so
# all its addresses lead here.
require "json"
require "net/http"
require "stringio"
require "gyre/web"

module GyreTest
  class ACMEFront
    attr_accessor :answer # a lambda: path, payload -> a Rack response in place of Pebble's, or nil
    attr_reader :seen # paths with payloads

    def self.problem(status, type, **fields)
      text = JSON.generate(type: "urn:ietf:params:acme:error:#{type}", status: status)
      [status, { "content-type" => "application/problem+json", **fields }, [text]]
    end

    def initialize(pebble)
      @pebble = pebble
      @seen = []
      @answer = ->(*) {}
      log = Gyre::Web::ServerLog.new(notices: StringIO.new, errors: StringIO.new)
      tls = { cert: pebble.identity[0], key: pebble.identity[1] }
      @server = Gyre::Web::Server.new(method(:call), bind: "ssl://127.0.0.1:0", tls: tls, log: log).start
    end

    def directory = "#{url}/dir"

    def close
      @server.stop(now: true)
      @server.wait
    end

    private

    def url = "https://localhost:#{@server.endpoints.first.port}"

    def call(env)
      path = env["PATH_INFO"]
      body = env["rack.input"]&.read.to_s
      payload = JSON.parse(body)["payload"].tr("-_", "+/").unpack1("m") unless body.empty?
      payload = payload.to_s.empty? ? nil : JSON.parse(payload)
      response = @answer.call(path, payload) || pass_on(env, path, body)
      @seen << [path, payload] unless response.last.first.include?("badNonce") # which comes again
      response
    end

    def pass_on(env, path, body)
      type = { "GET" => Net::HTTP::Get, "HEAD" => Net::HTTP::Head, "POST" => Net::HTTP::Post }.fetch(env["REQUEST_METHOD"])
      request = type.new(path, { "host" => env["HTTP_HOST"], "content-type" => env["CONTENT_TYPE"] }.compact)
      request.body = body unless body.empty?
      options = { use_ssl: true, ca_file: @pebble.ca }
      response = Net::HTTP.start("localhost", URI(@pebble.directory).port, **options) { |http| http.request(request) }
      headers = response.to_hash.slice("content-type", "location", "replay-nonce", "retry-after", "link").transform_values(&:first)
      [response.code.to_i, headers, [path == "/dir" ? with_times(response.body) : response.body.to_s]]
    end

    def with_times(text) = JSON.generate({ **JSON.parse(text), renewalInfo: "#{url}/renewal-info/" })
  end
end
