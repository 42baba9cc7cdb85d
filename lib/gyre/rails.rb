# frozen_string_literal: true

# Does the work of `gem "gyre"` in the Gemfile of a Rails application: `bin/rails server` starts
# Gyre's server, and state is kept by fiber. lib/gyre.rb loads it where Rails is.
# Everything else is set when a server starts (Gyre::Web::Isolation), so other servers and the
# console are left alone.

require "gyre/version"

module Gyre
  # Rails finds it by its superclass.
  class Railtie < ::Rails::Railtie
    # Requests share a thread. An application that sets a level keeps it, and is refused by the
    # server if that is :thread.
    config.before_configuration do |app|
      app.config.active_support.isolation_level ||= :fiber if app.config.respond_to?(:active_support)
    end

    # System tests are served by Gyre unless the application names another server.
    initializer "gyre.capybara" do
      ActiveSupport.on_load(:action_dispatch_system_test_case) do
        require "gyre/capybara"
        Capybara.server = :gyre if Capybara.server == Capybara.servers[:default]
      end
    end

    # `bin/rails server -u puma` and RACKUP_HANDLER=puma still start another one.
    module DefaultHandler
      def default
        ENV["RACKUP_HANDLER"] || ENV["RACK_HANDLER"] ? super : get(:gyre)
      end
    end
    ::Rackup::Handler.singleton_class.prepend(DefaultHandler) if defined?(::Rackup::Handler)
  end
end
