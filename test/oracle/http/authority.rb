# frozen_string_literal: true

# Authorities (RFC 3986, section 3.2): the value of Host and the host part of request targets, host
# [":" port] without user information. Called by Parser. Twin of a part of
# ext/gyre/http/h1/parser.c.

module HTTPOracle
  # One sound authority, in parts.
  #
  #   HTTPOracle::Authority.parse("[::1]:80").port # => "80"
  Authority = Struct.new(:text, :host, :port)

  # @!attribute text [r] @return [String] as it was sent
  # @!attribute host [r] @return [String] an IPv6 address keeps its brackets
  # @!attribute port [r] @return [String] digits, 0 to 65535; empty when not given
  class Authority
    NAME = /\A(?:[A-Za-z0-9\-._~!$&'()*+,;=]|%\h\h)+\z/n
    PORT = /\A\d{0,5}\z/n
    GROUP = /\A\h{1,4}\z/n
    IPV4 = /\A(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)){3}\z/n
    private_constant :NAME, :PORT, :GROUP, :IPV4

    def self.parse(text)
      bracket = text.start_with?("[") ? text.index("]") : -1
      return unless bracket

      colon = text.index(":", bracket + 1)
      host = colon ? text.byteslice(0, colon) : text
      port = colon ? text.byteslice(colon + 1, text.bytesize) : ""
      return unless port.match?(PORT) && port.to_i <= 65_535
      return unless bracket.positive? ? bracketed_ipv6?(host) : host.match?(NAME)

      new(text, host, port)
    end

    # Eight groups, or up to seven and one "::"; an IPv4 address at the end counts as two.
    def self.bracketed_ipv6?(host)
      return false unless host.end_with?("]")

      left, right, more = host.byteslice(1, host.bytesize - 2).split("::", -1)
      return false if left.nil? || more

      groups = groups(left, last: right.nil?)
      return groups == 8 unless right

      rest = groups(right, last: true)
      !!groups && !!rest && groups + rest <= 7
    end

    # How many groups of 16 bits text has, nil when it is malformed.
    def self.groups(text, last:)
      return 0 if text.empty?

      parts = text.split(":", -1)
      ipv4 = last && parts.last.match?(IPV4)
      parts.pop if ipv4
      return unless parts.all? { |part| part.match?(GROUP) }

      parts.size + (ipv4 ? 2 : 0)
    end
    private_class_method :bracketed_ipv6?, :groups
  end
end
