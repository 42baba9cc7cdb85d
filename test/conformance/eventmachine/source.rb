# frozen_string_literal: true

# Gets the gem eventmachine: its tests, and where a compiler makes it its library, each in a folder
# of tmp/conformance. Called by rakelib/conformance_eventmachine.rake.
require "rbconfig"

module GyreConformance
  # One release, for the Ruby that runs.
  class EventMachineSource
    VERSION = "1.2.7"

    def initialize(folder)
      @folder = File.join(folder, "eventmachine-#{RbConfig::CONFIG["ruby_version"]}")
    end

    # Returns the folder of the tests; nil where the gem cannot be had.
    def tests
      path = File.join(@folder, "source", "eventmachine-#{VERSION}", "tests")
      path if Dir.exist?(path) || (gem("fetch") && gem("unpack", "--target", "source") && Dir.exist?(path))
    end

    # Returns the load path of the original; nil where it cannot be compiled.
    def original
      @original ||= [found, gem("install", "--no-document", "--ignore-dependencies", "--install-dir", "gems") && found].find { |paths| paths&.any? }
    end

    private

    def found
      library = Dir[File.join(@folder, "gems/gems/*/lib")]
      library + Dir[File.join(@folder, "gems/extensions/*/*/*/")] if library.any?
    end

    def gem(command, *options)
      FileUtils.mkdir_p(@folder)
      name = command == "unpack" ? "eventmachine-#{VERSION}.gem" : "eventmachine"
      options += ["--version", VERSION] unless command == "unpack"
      system(GyreSuite.unbundled, File.join(RbConfig::CONFIG["bindir"], "gem"), command, name, *options,
        chdir: @folder, in: File::NULL, out: File::NULL, err: File::NULL)
    end
  end
end
