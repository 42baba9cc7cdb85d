# frozen_string_literal: true

# Finds gems that keep a request's state in its thread. Requests share a thread, so that a request
# would get the transaction, user or language of another. Changes settings where that is safe, and
# otherwise reports a remedy. Called by Isolation, and by `gyre serve --check` for faults that
# depend on the version alone. Loads no gem.

require "gyre/scheduler"
require "set"

module Gyre
  module Web
    # Isolation handles Active Support.
    module ThreadState
      # A gem, its affected versions, a check of this process (nil: the version alone decides), the
      # effect and the remedy.
      Row = Struct.new(:name, :versions, :present, :effect, :remedy)
      HUB = "config.hub_isolation_level = :fiber"

      TABLE = [
        Row.new("activerecord", "< 7.1", nil, "requests share a connection and its transaction", 'gem "rails", ">= 7.1"'),
        Row.new("sequel", "< 5.32", nil, "requests share a connection and its transaction", 'gem "sequel", ">= 5.32"'),
        Row.new("mongoid", "< 9.1", nil, "requests share sessions, transactions and scopes",
                'gem "mongoid", ">= 9.1" (Ruby 3.2 or newer)'),
        Row.new("request_store", "= 1.6.0", nil, "requests share one store, and so the user that paper_trail writes down",
                'gem "request_store", ">= 1.7"'),
        Row.new("concurrent-ruby", "< 1.2", nil, "two requests have one of its locks at once", 'gem "concurrent-ruby", ">= 1.2"'),
        Row.new("shopify_api", ">= 0", lambda {
          defined?(::ShopifyAPI::Context) && by_thread?(::ShopifyAPI::Context.instance_variable_get(:@active_session))
        }, "requests act on another shop's session",
                "ShopifyAPI::Context.instance_variable_set(:@active_session, Concurrent::FiberLocalVar.new { nil })"),
        Row.new("chewy", ">= 7.2.3", -> { defined?(::Chewy) && ::Chewy.current && Thread.current.thread_variable?(:chewy) },
                "requests share index strategies and scopes", "def Chewy.current = Thread.current[:chewy] ||= {}"),
        Row.new("sentry-ruby", ">= 0", lambda {
          hub = ::Sentry.configuration if defined?(::Sentry) && ::Sentry.respond_to?(:initialized?) && ::Sentry.initialized?
          hub && !(hub.respond_to?(:hub_isolation_level) && hub.hub_isolation_level == :fiber)
        }, "events carry the user and tags of another request", "#{HUB} in Sentry.init (sentry-ruby 6.7 or newer, Ruby 3.2 or newer)"),
        Row.new("newrelic_rpm", ">= 0", lambda {
          defined?(::NewRelic::Agent) && ::NewRelic::Agent.respond_to?(:config) && ::NewRelic::Agent.config[:thread_local_tracer_state]
        }, "transactions of requests are one", "thread_local_tracer_state: false in newrelic.yml"),
        Row.new("bullet", ">= 8.0", -> { defined?(::Bullet) && ::Bullet.enable? }, "queries are counted for another request", 'gem "bullet", "< 8"')
      ].each(&:freeze).freeze

      # Keeps I18n.config by job. (i18n 1.15 keeps it in fiber storage from Ruby 3.2 on, up to
      # 1.14.7 by thread.)
      module LocaleByJob
        VARIABLE = :@gyre_i18n_config

        def config = Job.current.instance_variable_get(VARIABLE) || (self.config = ::I18n::Config.new)

        def config=(value)
          Job.current.instance_variable_set(VARIABLE, value)
        end
      end

      # Prepended to Sequel: a connection's owner. By Sequel's own extension (fiber_concurrency) a
      # request's inner fibers would have other connections.
      module ConnectionByJob
        def current = Job.current
      end

      module_function

      # Changes settings, and reports faults once for a process and its forks.
      def apply(log)
        separate_sequel(log)
        separate_i18n(log)
        return if @reported

        @reported = true
        found { |row| row.present.nil? || row.present.call }.each { |message| log.error(message) }
      end

      # Returns the faults that follow from the versions of bundled gems alone.
      def faults = found { |row| row.present.nil? }

      def found
        return [] unless defined?(::Gem) # RUBYOPT=--disable-gems

        TABLE.filter_map do |row|
          spec = ::Gem.loaded_specs[row.name]
          next unless spec && ::Gem::Requirement.new(row.versions).satisfied_by?(spec.version) && yield(row)

          "#{row.name} #{spec.version} keeps state by thread, and requests share one: #{row.effect}. Write: #{row.remedy}"
        end
      end

      def separate_sequel(log)
        return if !defined?(::Sequel) || !::Sequel.respond_to?(:current) || ::Sequel.singleton_class < ConnectionByJob

        ::Sequel.singleton_class.prepend(ConnectionByJob)
        log.info("Sequel's connections are by request now, for requests share a thread")
      end

      def separate_i18n(log)
        return unless defined?(::I18n) && ::I18n.respond_to?(:config)

        ::I18n.config
        return if ::I18n.singleton_class < LocaleByJob || !Thread.current.thread_variable?(:i18n_config)

        ::I18n.singleton_class.prepend(LocaleByJob)
        log.info("I18n's locale is by request now, for requests share a thread")
      end

      def by_thread?(variable) = defined?(::Concurrent::ThreadLocalVar) && variable.is_a?(::Concurrent::ThreadLocalVar)
    end

    # Logs the thread variables that requests set, once for each gem: requests share a thread.
    # Started by Gyre::Web::Server together with the watchdog (in development).
    module ThreadVariables
      # A gem that sets variables for its callers, which are reported in its place.
      LENDER = "concurrent-ruby"
      OWN = "#{File.expand_path("../../..", __dir__)}/"

      class << self
        def watch(log)
          @log = log
          @reported = Set.new
          ::Thread.prepend(self)
        end

        def report(key, locations)
          return if locations.first&.absolute_path&.start_with?(OWN) # Gyre's own belong to the thread

          location = locations.find { |each| gem_of(each)&.name != LENDER } || locations.first
          spec = gem_of(location)
          return unless @reported.add?([key.to_sym, spec&.name || location&.path])

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
