# frozen_string_literal: true

# Makes `gem "gyre"` sufficient for Rails: `bin/rails server` starts Gyre, and Rails keeps state by
# fiber. Loaded by lib/gyre.rb. Everything else is set when the server starts
# (Gyre::Web::Isolation), so that other servers and the console are unaffected.

require "gyre/version"

module Gyre
  # Rails finds this class by its superclass.
  class Railtie < ::Rails::Railtie
    # Sets the isolation level :fiber, because requests share a thread. Keeps a level that the app
    # has set; the server refuses :thread.
    config.before_configuration { |app| app.config.active_support.isolation_level ||= :fiber if app.config.respond_to?(:active_support) }

    # Makes Gyre the server of system tests, unless the application names another server.
    initializer "gyre.capybara" do
      ActiveSupport.on_load(:action_dispatch_system_test_case) do
        require "gyre/capybara"
        Capybara.server = :gyre if Capybara.server == Capybara.servers[:default]
      end
    end

    # Makes Gyre the default; `bin/rails server -u puma` or RACKUP_HANDLER=puma still starts Puma.
    module DefaultHandler
      def default = ENV["RACKUP_HANDLER"] || ENV["RACK_HANDLER"] ? super : get(:gyre)
    end
    ::Rackup::Handler.singleton_class.prepend(DefaultHandler) if defined?(::Rackup::Handler)
  end
end
