# frozen_string_literal: true

# Skips a test case where this Ruby takes no profiles. Included in test cases of Gyre::Profile.
require "gyre/profile"

module GyreTest
  module WithProfiles
    def setup
      super
      Gyre::Profile.check
    rescue Gyre::Error => error
      skip error.message
    end
  end
end
