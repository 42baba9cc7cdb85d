# frozen_string_literal: true

# `require "gyre/capybara"`, then `Capybara.server = :gyre`: Capybara serves the app with Gyre. A
# Rails application with `gem "gyre"` needs neither (lib/gyre/rails.rb).

require "capybara"
require "gyre/web"

# The server runs in Capybara's thread until the process ends.
Capybara.register_server(:gyre) do |app, port, host, **options|
  Gyre::Web::Server.new(app, bind: "tcp://#{host.include?(":") ? "[#{host}]" : host}:#{port}", **options).run
end
