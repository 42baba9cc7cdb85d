# frozen_string_literal: true

# Adapts WebMock, and VCR (`hook_into :webmock`), to Gyre's HTTP client: `require
# "gyre/http/client/webmock"`.

require "gyre/http/client"
require "webmock"

module Gyre
  module HTTP
    class Client
      # Enabled and disabled by WebMock.
      class WebMockAdapter < ::WebMock::HttpLibAdapter
        adapter_for :gyre

        class << self
          # @api private
          attr_reader :enabled

          # @api private
          def enable! = @enabled = true

          # @api private
          def disable! = @enabled = false
        end

        # Prepended to Client.
        # @api private
        module Requests
          private

          def perform(request, interim)
            return super unless WebMockAdapter.enabled

            signature = signature_of(request)
            ::WebMock::RequestRegistry.instance.requested_signatures.put(signature)
            stub = ::WebMock::StubRegistry.instance.response_for_request(signature)
            return stubbed(request, signature, stub) if stub
            raise ::WebMock::NetConnectNotAllowedError, signature unless ::WebMock.net_connect_allowed?(signature.uri)

            super.tap { |response| report(signature, response) if ::WebMock::CallbackRegistry.any_callbacks? }
          end

          def signature_of(request)
            body = request.gather
            ::WebMock::RequestSignature.new(request.method.downcase.to_sym, "#{request.pool.origin.url}#{request.target}",
                                            body: body, headers: request.fields)
          end

          def stubbed(request, signature, stub)
            ::WebMock::CallbackRegistry.invoke_callbacks({ lib: :gyre }, signature, stub)
            raise TimeoutError.new("the stub times out", *request.name, :send) if stub.should_timeout

            stub.raise_error_if_any
            headers = (stub.headers || {}).to_h { |name, value| [name.to_s, value] }
            app = App.new(->(_env) { [stub.status.first.to_i, headers, [stub.body.to_s]] }, request.pool.origin, request.pool.fields)
            asked = Request.new(request.method, app, request.target, request.until_s, nil, request.body)
            asked.fields = request.fields
            asked.connection = app
            Response.new(asked, app.request(request.method, request.target, request.fields, nil, nil))
          end

          def report(signature, response)
            real = ::WebMock::Response.new
            real.status = [response.status, ""]
            real.body = response.body
            real.headers = response.headers.except("content-encoding", "transfer-encoding")
            ::WebMock::CallbackRegistry.invoke_callbacks({ lib: :gyre, real_request: true }, signature, real)
          end
        end

        Client.prepend(Requests)
      end
    end
  end
end
