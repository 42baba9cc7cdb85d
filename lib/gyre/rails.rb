# frozen_string_literal: true

# Makes `gem "gyre"` in a Rails application's Gemfile sufficient: `bin/rails server` starts Gyre's
# server, and state is kept by fiber. lib/gyre.rb loads it under Rails. A starting server sets
# everything else (Gyre::Web::Isolation), so that other servers and the console are unaffected.

require "gyre/version"

module Gyre
  # Rails finds it by its superclass.
  class Railtie < ::Rails::Railtie
    # Requests share a thread. Keeps a level that the application sets; the server refuses :thread.
    config.before_configuration do |app|
      app.config.active_support.isolation_level ||= :fiber if app.config.respond_to?(:active_support)
    end

    # Gyre serves system tests unless the application names another server.
    initializer "gyre.capybara" do
      ActiveSupport.on_load(:action_dispatch_system_test_case) do
        require "gyre/capybara"
        Capybara.server = :gyre if Capybara.server == Capybara.servers[:default]
      end
    end

    # `bin/rails server -u puma` and RACKUP_HANDLER=puma still start another server.
    module DefaultHandler
      def default
        ENV["RACKUP_HANDLER"] || ENV["RACK_HANDLER"] ? super : get(:gyre)
      end
    end
    ::Rackup::Handler.singleton_class.prepend(DefaultHandler) if defined?(::Rackup::Handler)
  end
end
