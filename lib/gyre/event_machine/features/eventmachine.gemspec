# frozen_string_literal: true

# A gem that stands for eventmachine where other gems depend on it. It has no dependency: programs
# name gyre beside it. A copy of this folder works anywhere.

Gem::Specification.new do |spec|
  spec.name = "eventmachine"
  spec.version = "1.2.7"
  spec.authors = ["The Gyre authors"]
  spec.summary = "Gyre under EventMachine's name"
  spec.license = "MIT"
  spec.files = ["eventmachine.rb"]
  spec.require_paths = ["."]
end
