# frozen_string_literal: true

# `gyre dns query`: asks name servers a question and prints the reply like dig.

require "gyre/cli"
require "gyre/cli/flags"
require "gyre/clock"
require "gyre/dns/configuration"
require "gyre/dns/dig_text"
require "gyre/dns/query"
require "gyre/dns/upstream"

module Gyre
  module CLI
    module DNS
      class Query < Command
        BANNER = <<~TEXT
          Asks a name server, and prints its reply as dig does.

          Usage: gyre dns query [options] NAME [TYPE] [@SERVER] [+tcp] [+tls] [+https]
                                [+short]

          SERVER is an IP address, 192.0.2.1:5300, tls://192.0.2.1#name or
          https://host/dns-query; without one it is that of /etc/resolv.conf. TLS
          verifies the server's certificate.
        TEXT
        WORDS = { "+tcp" => "tcp", "+tls" => "tls", "+https" => "https" }.freeze
        private_constant :WORDS

        def flags
          Flags.new(BANNER, help: ["-h", "--help"]) do |flags|
            flags.on("--ca FILE", "authorities of the server's certificate, instead of the system's") { |value| @ca = value }
          end
        end

        def call(words)
          servers = read(words)
          CLI.require_native("gyre dns query")
          query = Gyre::DNS::Query.ask(@name, @type)
          upstream = Gyre::DNS::Upstream.new(*servers, tls: (TLS.client(ca: @ca, alpn: %w[dot h2 http/1.1]) if @ca))
          taken_s = Clock.measure { upstream.exchange([query]) }
          return print_reply(query, taken_s) if query.reply

          advice = ". --ca FILE names the authority of a certificate" if query.failure.to_s.include?("certificate verify failed")
          @err.puts("gyre dns query: #{"#{servers.join(", ")}: " if query.failures.empty?}#{query.failure}#{advice}")
          FAILED
        rescue ArgumentError => error
          raise UsageError, error.message
        ensure
          upstream&.close
        end

        private

        def read(words)
          @short = words.delete("+short")
          protocol = words.filter_map { |word| WORDS[word] }.last
          given, names = words.reject { |word| WORDS.key?(word) }.partition { |word| word.start_with?("@") }
          unknown = names.find { |word| word.start_with?("+") }
          raise UsageError, "#{unknown} is unknown here; known: #{[*WORDS.keys, "+short"].join(", ")}" if unknown

          @name = names.shift or raise UsageError, "a name is missing"
          @type = Gyre::DNS.type_number(names.shift || "A")
          refuse_words(names)
          servers(given.map { |word| word.delete_prefix("@") }, protocol)
        end

        def servers(given, protocol)
          given = Gyre::DNS::Configuration.new(File.exist?("/etc/resolv.conf") ? File.read("/etc/resolv.conf") : "").servers if given.empty?
          given.map do |text|
            text = "#{protocol}://#{text.match?(Resolv::IPv6::Regex) ? "[#{text}]" : text}" if protocol && !text.include?("://")
            Gyre::DNS::ServerAddress.parse(text)
          end
        end

        def print_reply(query, taken_s)
          message = Gyre::DNS::Message.parse(query.restored)
          message.answers.each { |record| @out.puts(Gyre::DNS::DigText.data(record)) } if @short
          return DONE if @short

          @out.puts(Gyre::DNS::DigText.message(message), "", ";; Query time: #{(taken_s * 1000).round} msec",
                    ";; SERVER: #{query.server}", ";; WHEN: #{Time.now.strftime("%a %b %d %H:%M:%S %Z %Y")}",
                    ";; MSG SIZE  rcvd: #{query.reply.bytesize}")
          DONE
        rescue Gyre::DNS::FormatError => error
          raise StartError, "the reply of #{query.server} is not a DNS message: #{error.message}"
        end
      end
    end
  end
end
