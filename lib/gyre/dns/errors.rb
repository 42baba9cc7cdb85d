# frozen_string_literal: true

# The exceptions of DNS. Raised by messages, zone files, server and resolver.
require "gyre/errors"

module Gyre
  module DNS
    # Bytes that are not a DNS message. Its status is the rcode FORMERR.
    class FormatError < ProtocolError
      def initialize(message = "malformed message") = super(message, 1)
    end
  end
end
