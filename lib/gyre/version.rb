# frozen_string_literal: true

# The gem's version, for the gemspec and the command line. Requires nothing.
module Gyre
  # Semantic version of this release.
  VERSION = "0.1.0"
end
