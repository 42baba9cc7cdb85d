# frozen_string_literal: true

# Takes a request's client, scheme, host and port from a trusted proxy's headers (--trusted-proxy),
# and drops these headers if another peer sent them. Sets REMOTE_ADDR, rack.url_scheme, HTTP_HOST,
# SERVER_NAME, SERVER_PORT.

require "ipaddr"

module Gyre
  module Web
    # Reads a header from right to left, because the peer added the last entry. The first address
    # that is not a trusted proxy's is the client's. Entries to the left of it may be forged.
    class TrustedProxies
      NAMED = {
        "private" => %w[10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 127.0.0.0/8 169.254.0.0/16 ::1/128 fc00::/7 fe80::/10],
        "loopback" => %w[127.0.0.0/8 ::1/128]
      }.freeze
      # Headers that a proxy may write. Those that --forwarded-header does not name are dropped,
      # because a proxy may pass them on from its client.
      HEADERS = %w[x-forwarded-for x-forwarded-proto x-forwarded-host x-forwarded-port forwarded].freeze
      # Headers that every common proxy writes.
      USUAL = %w[x-forwarded-for x-forwarded-proto].freeze
      X_FORWARDED = %w[HTTP_X_FORWARDED_FOR HTTP_X_FORWARDED_PROTO HTTP_X_FORWARDED_HOST HTTP_X_FORWARDED_PORT].freeze
      # Further headers that frameworks trust; always dropped.
      ALIASES = %w[HTTP_X_FORWARDED_SCHEME HTTP_X_FORWARDED_SSL HTTP_X_REAL_IP HTTP_CLIENT_IP].freeze
      HOPS_LIMIT = 50
      # Maximum bytes of a header. A longer Forwarded is invalid; other headers lose the beginning.
      LIST_BYTES_LIMIT = 4096
      KNOWN_LIMIT = 1000
      HOST = /\A(?<name>[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::(?<port>\d{1,5}))?\z/.freeze
      # RFC 7239, section 4: name=token or name="quoted".
      PAIR = /\G\s*(?<name>[!#$%&'*+.^_`|~0-9A-Za-z-]+)=(?:"(?<quoted>(?:[^"\\]|\\.)*)"|(?<token>[^\s;,"]*))\s*(?<end>[;,]|\z)/.freeze

      # A proxy's entry: the address of its client, and facts about the request.
      Hop = Struct.new(:address, :scheme, :host, :port)

      # Parses an address, a range (10.0.0.0/8) or a name in {NAMED}.
      def self.ranges(text)
        NAMED.fetch(text.to_s) { [text.to_s] }.map { |range| IPAddr.new(range) }
      rescue IPAddr::Error
        raise ArgumentError, "must be an address, a range like 10.0.0.0/8, private or loopback, not #{text.to_s[0, 80].inspect}"
      end

      # Also trusts the peer of a Unix socket. Raises ArgumentError if `headers` has "forwarded" and
      # other names.
      def initialize(app, trusted, headers: USUAL)
        @app = app
        @ranges = Array(trusted).flat_map { |text| self.class.ranges(text) }
        @standard = headers.include?("forwarded")
        raise ArgumentError, "forwarded (RFC 7239) stands alone, without #{(headers - %w[forwarded]).join(", ")}" if @standard && headers.size > 1

        @believed = X_FORWARDED.map { |key| key if headers.include?(key.delete_prefix("HTTP_").tr("_", "-").downcase) }
        @known = {}
      end

      def call(env)
        hops = trusted?(env["REMOTE_ADDR"]) ? hops(env) : []
        X_FORWARDED.each { |key| env.delete(key) }
        ALIASES.each { |key| env.delete(key) }
        env.delete("HTTP_FORWARDED")
        believe(env, hops) unless hops.empty?
        @app.call(env)
      end

      private

      # Returns the hops to believe, from the peer's entry to the client's.
      def hops(env)
        said = @standard ? forwarded(env["HTTP_FORWARDED"]) : x_forwarded(env)
        believed = []
        said.reverse_each do |hop|
          hop.address = address(hop.address)
          believed << hop
          break unless hop.address && trusted?(hop.address)
        end
        believed
      end

      def x_forwarded(env)
        addresses, schemes, hosts, ports = @believed.map { |key| list(env[key]) }
        return [] if [addresses, schemes, hosts, ports].all?(&:empty?)

        count = [addresses.size, 1].max
        # Aligns shorter lists at their ends. For a missing entry, takes the list's first entry.
        Array.new(count) { |index| Hop.new(addresses[index], *[schemes, hosts, ports].map { |list| list[index - count] || list.first }) }
      end

      def list(text) = text ? ending(text).split(",", -1).last(HOPS_LIMIT).map(&:strip) : []

      # Drops a long text's beginning and the element cut there, whose rest may be another address.
      def ending(text) = text.bytesize > LIST_BYTES_LIMIT ? text.byteslice(-LIST_BYTES_LIMIT..).partition(",").last : text

      # Parses Forwarded (RFC 7239). If any part is invalid, returns one Hop, without an address.
      def forwarded(text)
        hops = [Hop.new]
        position = 0
        text = text.to_s
        return [] if text.empty?
        return [Hop.new] if text.bytesize > LIST_BYTES_LIMIT

        while position < text.length
          match = PAIR.match(text, position) or return [Hop.new]
          value = match[:quoted]&.gsub(/\\(.)/, "\\1") || match[:token]
          case match[:name].downcase
          when "for" then hops.last.address = value
          when "proto" then hops.last.scheme = value
          when "host" then hops.last.host = value
          end
          position = match.end(0)
          hops << Hop.new if match[:end] == ","
        end
        hops.last(HOPS_LIMIT)
      end

      # Removes port and brackets; nil for "unknown", "_hidden" and invalid addresses.
      def address(text)
        text = text.to_s.strip
        text = text[/\A\[([0-9A-Fa-f:.]+)\](?::\d+)?\z/, 1] || text[/\A(\d+\.\d+\.\d+\.\d+):\d+\z/, 1] || text
        IPAddr.new(text) && text unless text.include?("/") || text.bytesize > 45
      rescue IPAddr::Error
        nil
      end

      # The last Hop is the client's. If its address is hidden, takes the nearest known address.
      def believe(env, hops)
        client = hops.last
        known = hops.filter_map(&:address)
        env["REMOTE_ADDR"] = +known.last if known.any?
        env["HTTP_X_FORWARDED_FOR"] = known.reverse.join(", ") if known.any?
        scheme = client.scheme.to_s.downcase
        scheme = nil unless %w[http https].include?(scheme)
        set_scheme(env, scheme) if scheme
        set_host(env, client, scheme || env["rack.url_scheme"]) if client.host || client.port || scheme
      end

      def set_scheme(env, scheme)
        env["rack.url_scheme"] = scheme
        env["HTTP_X_FORWARDED_PROTO"] = +scheme
        scheme == "https" ? env["HTTPS"] = +"on" : env.delete("HTTPS")
      end

      # Takes the port from X-Forwarded-Port, otherwise from the host, otherwise from the scheme.
      def set_host(env, client, scheme)
        match = HOST.match((client.host || env["HTTP_HOST"]).to_s) or return
        standard = scheme == "https" ? "443" : "80"
        port = (client.port if client.port.to_s.match?(/\A\d{1,5}\z/)) || match[:port] || standard
        env["SERVER_NAME"] = match[:name]
        env["SERVER_PORT"] = port
        env["HTTP_HOST"] = port == standard ? +match[:name] : "#{match[:name]}:#{port}"
      end

      # Caches results by address, because proxies are few.
      def trusted?(text)
        return true if text == "" # a Unix socket

        known = @known[text]
        return known unless known.nil?

        @known.clear if @known.size >= KNOWN_LIMIT
        @known[-text.to_s] = inside?(text)
      end

      def inside?(text)
        address = IPAddr.new(text).native
        @ranges.any? { |range| range.family == address.family && range.include?(address) }
      rescue IPAddr::Error
        false
      end
    end
  end
end
