# frozen_string_literal: true

# Lets files keep what Ractors cannot share by Ractor.current, even where Ruby has no Ractors.

module Gyre
  # JRuby has no Ractors. `current` and `main` are the same Hash.
  Ractor = Struct.new(:current, :main) { def make_shareable(object) = object }.new(*([{}] * 2)) unless defined?(Ractor)
end
