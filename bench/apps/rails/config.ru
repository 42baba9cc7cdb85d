# frozen_string_literal: true

# The Rails app of bench/rails: a page of a layout and 60 rows, a page that says that it is public, a
# file of a megabyte, the health check, and an asset in FOLDER/public. bench/support/rails_suite.rb
# makes the folder.

require "rails"
require "action_controller/railtie"

class Application < Rails::Application
  config.load_defaults 8.1
  config.root = ENV.fetch("FOLDER")
  config.eager_load = true
  config.consider_all_requests_local = false
  config.secret_key_base = "0" * 64
  config.hosts.clear
  config.logger = Logger.new(IO::NULL)
  config.public_file_server.headers = { "cache-control" => "public, max-age=31536000" }
  config.action_dispatch.x_sendfile_header = "X-Sendfile"
  config.silence_healthcheck_path = "/up"
  routes.append do
    root to: "pages#show"
    get "public", to: "pages#shared"
    get "file", to: "pages#file"
    get "up", to: "rails/health#show"
  end
end

class PagesController < ActionController::Base
  append_view_path File.join(__dir__, "views")

  def show = @rows = Array.new(60) { |number| { name: "Article #{number}", price: number * 17 } }

  def shared
    expires_in 10.minutes, public: true
    show
    render :show
  end

  def file = send_file("#{ENV.fetch("FOLDER")}/storage/file.bin", disposition: "inline")
end

Rails.application.initialize!
run Rails.application
