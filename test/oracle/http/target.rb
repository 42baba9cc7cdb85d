# frozen_string_literal: true

# Request targets (RFC 9112, section 3.2): what the second word of a request line means. Called by
# Parser with a target whose bytes are allowed. Twin of a part of ext/gyre/http/h1/parser.c.

require "gyre/errors"
require "oracle/http/authority"

module HTTPOracle
  # One target, in parts.
  #
  #   HTTPOracle::Target.parse("GET", "http://example.com?a=b").path # => "/"
  Target = Struct.new(:form, :path, :query, :authority)

  # @!attribute form [r] @return [Symbol] :origin, :absolute, :authority or :asterisk
  # @!attribute path [r] @return [String] never empty; the target itself in authority and asterisk
  #   form
  # @!attribute query [r] @return [String, nil] without the "?"
  # @!attribute authority [r] @return [Authority, nil]
  class Target
    SCHEME = %r{\Ahttps?://}ni
    private_constant :SCHEME

    def self.parse(method, text)
      return authority_form(text) if method == "CONNECT"

      path, query = text.split("?", 2)
      return new(:origin, path, query) if text.start_with?("/")
      return absolute_form(path, query) if text.match?(SCHEME)
      raise Gyre::ProtocolError.new("a request target that is neither a path nor an http URI", 400) unless text == "*"
      raise Gyre::ProtocolError.new("the request target * with a method other than OPTIONS", 400) unless method == "OPTIONS"

      new(:asterisk, text)
    end

    def self.authority_form(text)
      authority = Authority.parse(text)
      return new(:authority, text, nil, authority) if authority && !authority.port.empty?

      raise Gyre::ProtocolError.new("a CONNECT whose target is not host:port", 400)
    end

    def self.absolute_form(text, query)
      start = text.index("//") + 2
      slash = text.index("/", start) || text.bytesize
      authority = Authority.parse(text.byteslice(start, slash - start))
      raise Gyre::ProtocolError.new("a request target that names no host", 400) unless authority

      path = text.byteslice(slash, text.bytesize)
      new(:absolute, path.empty? ? "/" : path, query, authority)
    end
    private_class_method :authority_form, :absolute_form
  end
end
