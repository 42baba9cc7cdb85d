# frozen_string_literal: true

# What `rake test:frameworks` serves, in a bundle of its own, which that task installs. Rails'
# newest needs Ruby 3.2 or newer.
gem "brotli", "~> 0.6"
gem "capybara", "~> 3.40"
gem "eventmachine", path: File.expand_path("../../lib/gyre/event_machine/features", __dir__) # for thin
gem "grape", ">= 2.0"
gem "graphql", "~> 2.4"
gem "hanami-controller", "~> 2.0"
gem "hanami-router", "~> 2.0"
gem "minitest", "~> 5.16"
gem "pg", "~> 1.5" if system("pg_config", "--version", out: File::NULL, err: File::NULL)
gem "puma", ">= 6.0"
gem "rackup", "~> 2.1"
gem "rails", ">= 8.0"
gem "roda", "~> 3.0"
gem "sidekiq", ">= 7.0"
gem "sinatra", "~> 4.0"
gem "sqlite3", "~> 2.0"
gem "thin", "~> 2.0"
gem "zstd-ruby", "~> 1.5"
