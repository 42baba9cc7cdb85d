# frozen_string_literal: true

# Tells whether this build has HTTP/2 (RFC 9113), by libnghttp2 (ext/gyre/http/h2).

require "gyre/loop"

Gyre::Loop.define_native(:http)

module Gyre
  module HTTP
    module H2
      # True if Gyre was built with libnghttp2. Servers then accept HTTP/2 by ALPN ("h2") and by its
      # preface (RFC 9113, section 3).
      def self.available? = Loop.native? && const_defined?(:Exchange, false)
    end
  end
end
