# frozen_string_literal: true

# Makes `gem "gyre"` sufficient for Rails: `bin/rails server` starts Gyre, and state belongs to a
# request with all its fibers, in a job process or a console to the thread. Loaded by lib/gyre.rb.
# Everything else is set when the server starts (Gyre::Web::Isolation).

require "gyre/version"
require "gyre/web/frameworks/execution_state"

module Gyre
  # Rails finds this class by its superclass.
  class Railtie < ::Rails::Railtie
    # Whether events of WebSocket handlers and live pages run in Rails' executor, as requests do:
    # `config.gyre.executor = false` turns it off.
    config.gyre = ::ActiveSupport::OrderedOptions.new
    config.gyre.executor = true
    # Whether Action Cable's connections are sockets of the server (Web::Cable):
    # `config.gyre.cable = :hijack` makes them hijacked ones, as on other servers.
    config.gyre.cable = :sockets
    # Whether these sockets are compressed (RFC 7692), as `compress` of {WebSocket.open}.
    config.gyre.cable_compression = false

    # Sets the isolation level :fiber, because requests share a thread. Keeps a level that the app
    # has set; the server refuses :thread.
    config.before_configuration do |app|
      app.config.active_support.isolation_level ||= :fiber if app.config.respond_to?(:active_support)
      Web::ExecutionState.install
    end

    # Makes Gyre the server of system tests, unless the application names another server.
    initializer "gyre.capybara" do
      ActiveSupport.on_load(:action_dispatch_system_test_case) do
        require "gyre/capybara"
        Capybara.server = :gyre if Capybara.server == Capybara.servers[:default]
      end
    end

    # Compresses the public files once assets:precompile has written them, which Propshaft does not.
    # The application's own blocks run after those of all railties.
    rake_tasks do |app|
      app.class.rake_tasks do
        Rake::Task.define_task("assets:precompile").enhance do
          require "gyre/http/files/precompress"
          folders = [::Rails.public_path, ::Rails.public_path.join("assets")] # the latter may be a link
          folders.select(&:directory?).each { |folder| HTTP::Files::Precompress.call(folder.to_s) }
        end
      end
    end

    # Makes Gyre the default; `bin/rails server -u puma` or RACKUP_HANDLER=puma still starts Puma.
    module DefaultHandler
      def default = ENV["RACKUP_HANDLER"] || ENV["RACK_HANDLER"] ? super : get(:gyre)
    end
    ::Rackup::Handler.singleton_class.prepend(DefaultHandler) if defined?(::Rackup::Handler)
  end
end
