# frozen_string_literal: true

# Makes Rails respond with 503 instead of 500 to a request that exceeds --request-timeout. Called by
# Gyre::Web::Server before it listens. Loads nothing, and does nothing without Action Dispatch.

module Gyre
  module Web
    # Adds an entry to `config.action_dispatch.rescue_responses`.
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
