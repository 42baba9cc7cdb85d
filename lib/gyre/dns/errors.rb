# frozen_string_literal: true

# The exceptions of DNS. Raised by messages, zone files, server and resolver.
require "gyre/errors"

module Gyre
  module DNS
    # Malformed DNS message; its status is the rcode FORMERR.
    class FormatError < ProtocolError
      def initialize(message = "malformed message") = super(message, 1)
    end
  end
end
