# frozen_string_literal: true

# The gem's version. Read by the gemspec, and the command line; it requires nothing.
module Gyre
  # Semantic version of this release.
  VERSION = "0.1.0"
end
