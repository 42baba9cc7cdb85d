# frozen_string_literal: true

# What test/rack2 serves: Rack 2.2, which cannot be loaded beside the Rack 3 of all other tests.
# bin/setup installs it.
gem "ostruct" # which Ruby 4.0 no longer brings along
gem "rack", "~> 2.2"
