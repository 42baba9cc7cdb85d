# frozen_string_literal: true

# Lets Capybara serve the app under test with Gyre: `require "gyre/capybara"`, then
# `Capybara.server = :gyre`. In a Rails application with `gem "gyre"` system tests do both
# (lib/gyre/rails.rb). It starts nothing by itself.

require "capybara"
require "gyre/web"

# In a thread that Capybara has made and leaves running until the process ends.
Capybara.register_server(:gyre) do |app, port, host, **options|
  Gyre::Web::Server.new(app, bind: "tcp://#{host.include?(":") ? "[#{host}]" : host}:#{port}", **options).run
end
