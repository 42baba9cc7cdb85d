# frozen_string_literal: true

# A Rails application as `rails new` lays it out, as small as it can be: `bin/rails server` starts
# it, and its code is reloaded. Copied by test/frameworks/rails_test.rb, which changes its files.

require "rails"
require "action_controller/railtie"
require "action_cable/engine"
require "rackup"
require "gyre" # as Bundler.require does it for `gem "gyre"`

class Application < Rails::Application
  config.load_defaults 8.0
  config.root = File.expand_path("..", __dir__)
  config.eager_load = false
  config.enable_reloading = true
  config.secret_key_base = "0" * 64
  config.hosts.clear
  config.logger = Logger.new(File.join(config.root, "log.txt"))
  config.action_cable.disable_request_forgery_protection = true
  config.autoload_paths << File.join(config.root, "app/models")
  routes.append do
    get "version", to: "pages#version"
    get "wait", to: "pages#wait"
  end
end
