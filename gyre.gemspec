# frozen_string_literal: true

# What the gem is and which files it carries. No runtime dependencies: Rack is a calling convention, the rest
# comes with Ruby. JRuby gets the gem without the extension and runs on the portable engine.
require_relative "lib/gyre/version"

Gem::Specification.new do |spec|
  spec.name = "gyre"
  spec.version = Gyre::VERSION
  spec.authors = ["The Gyre authors"]
  spec.summary = "Event-driven I/O for Ruby: a native loop, a fiber scheduler, structured tasks and a Rack server"
  spec.description = "One native event loop and what stands on it: the Fiber::Scheduler of any thread, structured " \
                     "concurrency, and an HTTP server for Rack 3 that runs each request in a fiber."
  spec.license = "MIT"
  spec.required_ruby_version = ">= 3.1"

  spec.files = Dir.chdir(__dir__) do
    # Examples and results are what the guides link to.
    Dir["lib/**/*.{rb,js,html,gemspec}", "exe/*",
        "ext/gyre/**/*.{rb,c,h}", "docs/**/*.md", "examples/**/*.{rb,ru,md}", "bench/{README.md,results/*.md,notes/*.md}",
        "bench/results/*.svg", "*.md", "LICENSE", ".yardopts"].sort
  end
  spec.bindir = "exe"
  spec.executables = Dir.chdir(__dir__) { Dir["exe/*"].map { |path| File.basename(path) }.sort }
  spec.require_paths = ["lib"]
  if RUBY_ENGINE == "jruby"
    spec.platform = "java"
  else
    spec.extensions = ["ext/gyre/extconf.rb"]
  end
  spec.metadata["rubygems_mfa_required"] = "true"
end
