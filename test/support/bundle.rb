# frozen_string_literal: true

# Activates the gems that bin/setup installed for this Ruby (see bin/bundle), so that `ruby -Itest
# test/x_test.rb` and `rake test` need no `bundle exec`. GYRE_TEST_BUNDLE=newest_gems takes those of
# that bundle. Loaded first by test_helper; does nothing under Bundler already.
require "rbconfig"

unless ENV["RUBYOPT"].to_s.include?("bundler/setup") || defined?(Bundler)
  key = "#{RUBY_ENGINE}-#{RbConfig::CONFIG["ruby_version"]}"
  folder = [ENV["GYRE_TEST_BUNDLE"], key].compact.join("-")
  gemfile = File.expand_path("../../vendor/bundle/#{folder}/Gemfile", __dir__)
  if File.exist?("#{gemfile}.lock")
    ENV["BUNDLE_GEMFILE"] = gemfile
    require "bundler/setup"
  elsif !ENV["BUNDLE_GEMFILE"]
    warn "gyre: no gems for #{key} in this checkout, those of the system are tried; bin/setup installs them"
  end
end
