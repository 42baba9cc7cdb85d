# frozen_string_literal: true

# `require "gyre/capybara"`, then `Capybara.server = :gyre`: Capybara serves the app with Gyre. A
# Rails application with `gem "gyre"` needs neither (lib/gyre/rails.rb).

require "capybara"
require "gyre/web"

# The server runs in Capybara's thread until the process ends. Puma's options, which begin with
# capitals, are left out (`Capybara.server = :gyre, { Silent: true }`).
Capybara.register_server(:gyre) do |app, port, host, **options|
  options = options.reject { |name, _| name.match?(/\A[A-Z]/) }
  Gyre::Web::Server.new(app, bind: "tcp://#{host.include?(":") ? "[#{host}]" : host}:#{port}", **options).run
end
