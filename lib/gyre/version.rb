# frozen_string_literal: true

# The gem's version.
module Gyre
  # Semantic version.
  VERSION = "0.1.0"
end
