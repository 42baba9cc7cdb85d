# frozen_string_literal: true

# Lets Capybara serve the app under test with Gyre: `require "gyre/capybara"`, then `Capybara.server
# = :gyre`. System tests of a Rails application with `gem "gyre"` need neither line
# (lib/gyre/rails.rb).

require "capybara"
require "gyre/web"

# Runs in a thread of Capybara's, until the process ends.
Capybara.register_server(:gyre) do |app, port, host, **options|
  Gyre::Web::Server.new(app, bind: "tcp://#{host.include?(":") ? "[#{host}]" : host}:#{port}", **options).run
end
