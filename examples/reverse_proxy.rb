# frozen_string_literal: true

# A reverse proxy as a Rack app: bodies stream in both directions, upgrades (WebSockets) go through.
# In a config.ru:
#
#     require_relative "reverse_proxy"
#     run ReverseProxy.new("http://127.0.0.1:3000")
#
# `gyre serve` parses the requests and Gyre::HTTP::Client the responses, both strictly; each side
# gets new framing from what was parsed, so nothing is smuggled from one to the other.

require "gyre"
require "gyre/http/client"

class ReverseProxy
  # Fields that belong to one connection (RFC 9110, section 7.6.1).
  HOP_BY_HOP = %w[connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding upgrade].freeze
  # Sent by the client itself unless the request has them.
  USUAL = { "accept" => nil, "accept-encoding" => nil, "user-agent" => nil }.freeze
  PIECE_BYTES = 65_536

  # `upstream` is the address of the service; `options` are those of Gyre::HTTP::Client.
  def initialize(upstream, **options)
    @client = Gyre::HTTP::Client.new(upstream, proxy: nil, redirects_limit: 0, **options)
  end

  def call(env)
    return plain(405, "the proxy does not take #{env["REQUEST_METHOD"]}") if %w[CONNECT TRACE].include?(env["REQUEST_METHOD"])

    response = @client.stream(env["REQUEST_METHOD"], target(env), headers: request_headers(env), body: request_body(env))
    return upgrade(response) if response.status == 101

    [response.status, response_headers(response.headers), Body.new(response)]
  rescue Gyre::HTTP::Client::TimeoutError => error
    failed(504, env, error)
  rescue Gyre::HTTP::Client::Error => error
    failed(502, env, error)
  rescue ArgumentError
    plain(400, "this request cannot be passed on")
  end

  def close = @client.close

  # The response's body, as it comes. The server closes it also when its client has left.
  class Body
    def initialize(response)
      @response = response
    end

    def each(&block) = @response.each(&block)
    def close = @response.close
  end

  private

  def target(env)
    query = env["QUERY_STRING"].to_s
    query.empty? ? env["PATH_INFO"] : "#{env["PATH_INFO"]}?#{query}"
  end

  def request_headers(env)
    headers = env.filter_map { |key, value| [key.delete_prefix("HTTP_").downcase.tr("_", "-"), value] if key.start_with?("HTTP_") }.to_h
    headers["content-type"] = env["CONTENT_TYPE"] if env["CONTENT_TYPE"]
    headers["content-length"] = env["CONTENT_LENGTH"] if body?(env) && env["CONTENT_LENGTH"]
    kept = { **USUAL, **end_to_end(headers).except("expect"), **forwarded(env) }
    protocol = env["rack.protocol"]&.first
    protocol ? { **kept, "connection" => "upgrade", "upgrade" => protocol } : kept
  end

  def forwarded(env)
    { "x-forwarded-for" => [env["HTTP_X_FORWARDED_FOR"], env["REMOTE_ADDR"]].compact.join(", "),
      "x-forwarded-proto" => env["rack.url_scheme"], "x-forwarded-host" => env["HTTP_HOST"].to_s }
  end

  # Without those that Connection names.
  def end_to_end(headers) = headers.except(*HOP_BY_HOP, *headers["connection"].to_s.downcase.split(/[\s,]+/))

  # gyre.trailers: in chunks, or over HTTP/2 without a length.
  def body?(env) = env["CONTENT_LENGTH"].to_i.positive? || env.key?("HTTP_TRANSFER_ENCODING") || env.key?("gyre.trailers")
  def request_body(env) = body?(env) ? Pieces.new(env["rack.input"]) : nil

  # The request's body, as it comes; it cannot be sent twice.
  class Pieces
    def initialize(input)
      @input = input
    end

    def each
      loop { yield @input.readpartial(PIECE_BYTES) }
    rescue EOFError
      raise unless @input.read(1).nil? # its client was cut
    end
  end

  # The server frames the body by itself.
  def response_headers(headers)
    kept = end_to_end(headers)
    headers.key?("transfer-encoding") ? kept.except("content-length") : kept
  end

  # --- upgrades ---

  # Both sides have left HTTP: bytes go through until one ends.
  def upgrade(response)
    transport = response.connection.transport
    headers = end_to_end(response.headers).merge("rack.protocol" => response["upgrade"])
    [101, headers, ->(stream) { tunnel(stream, transport) }]
  end

  def tunnel(stream, transport)
    Gyre.run do |task|
      task.async(transient: true) do
        loop { transport.write(stream.readpartial(PIECE_BYTES)) }
      rescue EOFError
        transport.close_write
      end
      while (bytes = transport.read_partial)
        stream.write(bytes)
      end
    end
  rescue SystemCallError, IOError
    nil # one side has gone
  ensure
    transport.abandon
    stream.close
  end

  # --- errors ---

  def failed(status, env, error)
    env["rack.errors"]&.puts(error.message)
    plain(status, status == 504 ? "the service behind this proxy does not respond" : "the service behind this proxy cannot be reached")
  end

  def plain(status, text) = [status, { "content-type" => "text/plain" }, ["#{text}\n"]]
end
