# frozen_string_literal: true

# What `rake test:frameworks` serves, in a bundle of its own, which that task installs. Rails'
# newest needs Ruby 3.2 or newer.
gem "rackup", "~> 2.1"
gem "rails", ">= 8.0"
gem "roda", "~> 3.0"
gem "sinatra", "~> 4.0"
gem "sqlite3", "~> 2.0"
