# frozen_string_literal: true

# Rails makes a response of every exception, 500 unless it is told another status. A request that
# took longer than --request-timeout is a 503, as it is in every other app. Gyre::Web::Server calls
# this before it listens. Nothing is loaded for it: without Action Dispatch nothing is done.

module Gyre
  module Web
    # Adds to `config.action_dispatch.rescue_responses`, in effect.
    module RescueResponses
      NAME = "Gyre::HTTP::RequestTimeout"
      private_constant :NAME

      module_function

      # What the application has set for it stays.
      # @return [void]
      def apply
        return unless defined?(::ActionDispatch::ExceptionWrapper)

        responses = ::ActionDispatch::ExceptionWrapper.rescue_responses
        responses[NAME] = :service_unavailable unless responses.key?(NAME)
      end
    end
  end
end
