# frozen_string_literal: true

# Makes `gem "gyre"` sufficient for Rails: `bin/rails server` starts Gyre, and state is kept by
# fiber. Loaded by lib/gyre.rb. A starting server sets everything else (Gyre::Web::Isolation), so
# other servers and the console are unaffected.

require "gyre/version"

module Gyre
  # Rails finds it by its superclass.
  class Railtie < ::Rails::Railtie
    # Requests share a thread. Keeps the application's level; the server refuses :thread.
    config.before_configuration { |app| app.config.active_support.isolation_level ||= :fiber if app.config.respond_to?(:active_support) }

    # Unless the application names another server for system tests.
    initializer "gyre.capybara" do
      ActiveSupport.on_load(:action_dispatch_system_test_case) do
        require "gyre/capybara"
        Capybara.server = :gyre if Capybara.server == Capybara.servers[:default]
      end
    end

    # `bin/rails server -u puma` and RACKUP_HANDLER=puma start another server.
    module DefaultHandler
      def default = ENV["RACKUP_HANDLER"] || ENV["RACK_HANDLER"] ? super : get(:gyre)
    end
    ::Rackup::Handler.singleton_class.prepend(DefaultHandler) if defined?(::Rackup::Handler)
  end
end
