# frozen_string_literal: true

# Logs thread variables set in requests, which share a thread, each once and with its gem. Started
# by Gyre::Web::Server with the watchdog (in development).

require "gyre/scheduler"

module Gyre
  module Web
    module ThreadVariables
      # Sets variables for its callers, which are reported.
      LENDER = "concurrent-ruby"
      OWN = "#{File.expand_path("../../..", __dir__)}/"
      private_constant :LENDER, :OWN

      class << self
        def watch(log)
          @log = log
          @reported = {}
          ::Thread.prepend(self)
        end

        def report(key, locations)
          return if locations.first&.absolute_path&.start_with?(OWN) # Gyre's own belong to the thread

          location = locations.find { |each| gem_of(each)&.name != LENDER } || locations.first
          spec = gem_of(location)
          return if @reported[[key.to_sym, spec&.name || location&.path]]

          @reported[[key.to_sym, spec&.name || location&.path]] = true
          @log.error("the thread variable #{key} is set in a request by #{spec ? "#{spec.name} #{spec.version}" : "the app"} " \
                     "(#{location&.path}:#{location&.lineno}). Requests share a thread, and so this variable; docs/from-puma.md has the remedy")
        end

        private

        def gem_of(location)
          path = location&.absolute_path or return
          ::Gem.loaded_specs.each_value.find { |spec| path.start_with?("#{spec.full_gem_path}/") }
        end
      end

      def thread_variable_set(key, value)
        ThreadVariables.report(key, caller_locations(1, 12)) if equal?(::Thread.current) && Fiber.current_scheduler.is_a?(Scheduler)
        super
      end
    end
  end
end
