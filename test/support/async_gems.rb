# frozen_string_literal: true

# Async and Falcon for tests: programs that run with the gems of test/async/gems.rb, in their own
# processes, for what `require "gyre/async"` does holds for a whole process. Included by the tests
# of test/async.
require "rbconfig"
require_relative "helpers"

module GyreTest
  # How programs get at Async.
  module AsyncGems
    FOLDER = File.join(Helpers::ROOT, "vendor", "bundle", "async-#{RUBY_ENGINE}-#{RbConfig::CONFIG["ruby_version"]}")

    # Skips the test where Async cannot be.
    def need_async
      skip "Async needs Ruby 3.3, this is #{RUBY_VERSION}" if RUBY_VERSION < "3.3"
      skip "Gyre's extension is not compiled" unless Gyre::Loop.native?
      skip "Async is not installed; bin/setup does it" unless File.exist?("#{FOLDER}/Gemfile.lock")
    end

    # Runs Ruby code or a script with Async's gems, as Helpers#ruby. What Ruby reports about files
    # of gems is left out of `err`.
    def async_ruby(*arguments, env: {}, within_s: 60)
      run = run_program(*async_command(*arguments, env: env), within_s: within_s)
      run.err = run.err.lines.grep_v(%r{/gems/.*warning: }).join
      run
    end

    # The command for it, for with_subprocess.
    def async_command(*arguments, env: {})
      bundle = without_bundle.merge("BUNDLE_GEMFILE" => "#{FOLDER}/Gemfile", "PATH" => "#{bin}:#{ENV["PATH"]}", "CONSOLE_LEVEL" => "fatal")
      [bundle.merge(env), RbConfig.ruby, "-w", "-I#{Helpers::LIB}", "-rbundler/setup", *arguments]
    end

    private

    def bin
      File.join(FOLDER, "gems", RUBY_ENGINE, RbConfig::CONFIG["ruby_version"], "bin")
    end
  end
end
