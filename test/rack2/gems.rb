# frozen_string_literal: true

# What test/rack2 serves: Rack 2.2, which cannot be loaded beside the Rack 3 of all other tests.
# bin/setup installs it.
gem "rack", "~> 2.2"
