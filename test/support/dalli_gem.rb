# frozen_string_literal: true

# The dalli gem for tests: programs that run with the gems of test/dalli/gems.rb in processes of
# their own. Included by tests of test/memcached.
require "json"
require "rbconfig"
require_relative "helpers"

module GyreTest
  # How programs get at Dalli.
  module DalliGem
    FOLDER = File.join(Helpers::ROOT, "vendor", "bundle", "dalli-#{RUBY_ENGINE}-#{RbConfig::CONFIG["ruby_version"]}")

    # Skips the test where Dalli is not.
    def need_dalli
      skip "Dalli is not installed; bin/setup does it" unless File.exist?("#{FOLDER}/Gemfile.lock")
    end

    # Runs a program with Dalli's gems and the checkout's lib. What Ruby reports about files of gems
    # is left out of `err`.
    def dalli_program(*arguments, env: {}, stdin: "", within_s: 60)
      run = run_program(*dalli_command(*arguments, env: env), stdin: stdin, within_s: within_s)
      run.err = run.err.lines.grep_v(%r{/gems/.*warning: }).join
      run
    end

    # The command for it, for with_subprocess.
    def dalli_command(*arguments, env: {})
      bundle = without_bundle.merge("BUNDLE_GEMFILE" => "#{FOLDER}/Gemfile")
      [bundle.merge(env), RbConfig.ruby, "-w", "-I#{Helpers::LIB}", "-rbundler/setup", *arguments]
    end

    # Runs code in which `input` is the argument, and returns what it evaluates to. Both have to
    # survive Marshal.
    def with_dalli(input, code)
      program = "$stdin.binmode; $stdout.binmode; require 'digest/sha2'; input = Marshal.load($stdin.read); require 'dalli'; require 'logger'; " \
                "Dalli.logger = Logger.new($stderr, level: Logger::ERROR)\n$stdout.write Marshal.dump((#{code}))"
      run = dalli_program("-e", program, stdin: Marshal.dump(input))
      assert_equal "", run.err
      Marshal.load(run.out.b)
    end
  end
end
