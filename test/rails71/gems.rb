# frozen_string_literal: true

# The oldest Rails that Gyre serves, for test/frameworks/differential_test.rb on Rubies that the
# newest does not support. `rake test:frameworks` installs it.
gem "concurrent-ruby", "< 1.3.5" # it no longer loads logger, which this Rails expects
gem "graphql", "~> 2.4"
gem "minitest", "~> 5.16"
gem "puma", ">= 6.0"
gem "rails", "~> 7.1.0"
gem "sqlite3", "~> 1.7"
