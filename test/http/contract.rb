# frozen_string_literal: true

# Runs a contract of HTTP (test/contracts/http_contract_*_test.rb), a module of cases, over each
# protocol. No test itself.

require "support/engines"
require "http/serving"
require "http/h2/contract"

module GyreTest
  # For test/contracts.
  module HTTPContract
    # For the cases.
    module TLS
      def tls? = true
    end

    # Defines the contract's test classes, such as HTTPRackContractOverHTTP2::Epoll. HTTP/1 runs on
    # each backend, TLS on the second, HTTP/2 on the first, for all share what depends on it.
    def self.run(cases, over: %i[http1 tls http2], backends: Engines::NATIVE)
      own = ->(protocol) { [cases, *(cases.const_get(protocol, false) if cases.const_defined?(protocol, false))] }
      http2 = H2Serving::BACKENDS.first(1)
      {
        http1: ["OverHTTP1", backends, own[:HTTP1]],
        tls: ["OverTLS", Engines::NATIVE.first(2).last(1), [*own[:HTTP1], TLS]],
        http2: ["OverHTTP2", http2, [*own[:HTTP2], H2Contract::Serving]],
        http2_tls: ["OverHTTP2AndTLS", http2, [*own[:HTTP2], H2Contract::Serving, TLS]]
      }.fetch_values(*over).each do |name, on, modules|
        Engines.test_case("#{cases}#{name}", backends: on) { modules.each { |part| include part } }
      end
    end
  end
end
