# frozen_string_literal: true

# Lists the parts of this build and the libraries that it lacks, for `gyre --version`.

require "rbconfig"
require "gyre/http/h2"
require "gyre/loop"
require "gyre/net/tls"
require "gyre/version"
require "gyre/websocket/compression"

module Gyre
  module CLI
    module Build
      # A part of the build, its library with the minimum version, and the library's Debian package.
      Part = Struct.new(:name, :library, :package, :present)
      PARTS = [
        Part.new("TLS", "OpenSSL 3.0", "libssl-dev", -> { TLS.available? }),
        Part.new("HTTP/2", "libnghttp2 1.50", "libnghttp2-dev", -> { HTTP::H2.available? }),
        Part.new("compressed WebSockets", "zlib", "zlib1g-dev", -> { WebSocket::Compression.available? }),
        Part.new("io_uring", "liburing 2.3", "liburing-dev", -> { Loop.built?("io_uring") })
      ].freeze

      module_function

      def text
        ["gyre #{VERSION}", "  Ruby: #{RUBY_ENGINE} #{RUBY_VERSION}, #{RbConfig::CONFIG["arch"]}", "  backends: #{Loop.availables.join(", ")}",
         *(Loop.native? ? native : "  HTTP, TLS, logs, memcached: no, the C extension is missing: #{Loop.native_remedy}")].join("\n")
      end

      def native = ["  HTTP/1.1, logs, memcached: yes", *PARTS.map { |part| "  #{part.name}: #{part.present.call ? "yes" : lacking(part)}" }]

      def lacking(part) = "no, built without #{part.library} (on Debian: apt-get install #{part.package}, then install the gem again)"
    end
  end
end
