# frozen_string_literal: true

# Gets Dalli's tests, which the gem does not contain: from the folder or repository in
# GYRE_DALLI_SOURCE, or else by git from where Dalli is developed. Called by
# rakelib/conformance_dalli.rake. What was fetched is kept in tmp/conformance.
require "fileutils"

module GyreConformance
  # The source of one release of Dalli.
  class DalliSource
    TAG = "v5.0.6"
    URL = "https://github.com/petergoldstein/dalli"

    # Returns why there is none.
    attr_reader :problem

    def initialize(folder)
      @folder = File.join(folder, "dalli-#{TAG}")
    end

    # Returns the folder with test/; nil where it cannot be had.
    def path
      return @folder if complete?

      given = ENV["GYRE_DALLI_SOURCE"].to_s
      @problem = given.empty? ? fetch(URL) : fetch(given)
      @folder if complete?
    end

    private

    def complete? = File.exist?(File.join(@folder, "test", "helper.rb"))

    def fetch(from)
      FileUtils.rm_rf(@folder)
      cloned = system({ "GIT_TERMINAL_PROMPT" => "0" }, "timeout", "60", "git", "-c", "advice.detachedHead=false", "clone", "--quiet", "--depth", "1",
        "--branch", TAG, from, @folder, in: File::NULL, out: File::NULL, err: File::NULL)
      "git could not fetch #{TAG} from #{from}; name a copy of that repository in GYRE_DALLI_SOURCE" unless cloned
    end
  end
end
