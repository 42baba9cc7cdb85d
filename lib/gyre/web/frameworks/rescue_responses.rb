# frozen_string_literal: true

# Makes Rails respond with 503, not 500, beyond --request-timeout. Called by Gyre::Web::Server
# before it listens. Loads nothing.

module Gyre
  module Web
    # Extends `config.action_dispatch.rescue_responses`.
    module RescueResponses
      NAME = "Gyre::HTTP::RequestTimeout"
      private_constant :NAME

      module_function

      # Keeps the application's own entry.
      def apply
        return unless defined?(::ActionDispatch::ExceptionWrapper)

        responses = ::ActionDispatch::ExceptionWrapper.rescue_responses
        responses[NAME] = :service_unavailable unless responses.key?(NAME)
      end
    end
  end
end
