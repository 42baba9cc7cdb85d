# frozen_string_literal: true

# HTTP/2 (RFC 9113) on the server's side: whether this build has it. The frames are libnghttp2's,
# and all of what uses it is in C (ext/gyre/http/http2_*.c). Nothing here does any work.

require "gyre/loop"

module Gyre
  module HTTP
    # HTTP/2's side of {Server}.
    module H2
      # @return [Boolean] whether the extension was built with libnghttp2: then a server takes
      #   HTTP/2 from clients that agree on "h2" by ALPN, or begin with its preface (RFC 9113,
      #   section 3)
      def self.available?
        Loop.native? && const_defined?(:Exchange, false)
      end
    end
  end
end
