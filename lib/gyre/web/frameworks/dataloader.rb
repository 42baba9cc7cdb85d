# frozen_string_literal: true

# Lets the sources of GraphQL's Dataloader wait like any request: the gem runs them in blocking
# fibers, whose waits stop all others. Called by Isolation. Loads no gem.

module Gyre
  module Web
    # Prepended to GraphQL::Dataloader.
    module Dataloader
      # Prepends this module, if the gem is there and has its switch.
      def self.apply(log)
        return unless defined?(::GraphQL::Dataloader) && !(::GraphQL::Dataloader < self)
        return unless [:spawn_fiber, :join_queues].all? { |name| ::GraphQL::Dataloader.private_method_defined?(name) || ::GraphQL::Dataloader.method_defined?(name) }

        ::GraphQL::Dataloader.prepend(self)
        log.info("GraphQL's dataloader runs its sources in non-blocking fibers now, for other requests go on meanwhile")
      end

      def spawn_fiber(...)
        @nonblocking = true
        super
      end

      private

      # Without the gem's run of the scheduler, which would wait for all requests: a resumed fiber
      # returns here only after its waits.
      def join_queues(former, newer)
        former.concat(newer)
        newer.clear
      end
    end
  end
end
