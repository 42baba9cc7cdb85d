# frozen_string_literal: true

# Lets the sources of GraphQL's Dataloader wait like any request: the gem runs them in blocking
# fibers, whose waits stop all others. Called by Isolation. Loads no gem.

module Gyre
  module Web
    # Prepended to GraphQL::Dataloader.
    module Dataloader
      # Prepends this module, if the gem is there and has its switch.
      def self.apply(log)
        loader = ::GraphQL::Dataloader if defined?(::GraphQL::Dataloader)
        return unless loader && !(loader < self) && loader.method_defined?(:spawn_fiber) && loader.private_method_defined?(:join_queues)

        loader.prepend(self)
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
