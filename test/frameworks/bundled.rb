# frozen_string_literal: true

# What tests of frameworks share: the bundle of gems.rb, which `rake test:frameworks` installs, and
# the environment of a program with it. No test itself.
module GyreTest
  # For test classes.
  module Bundled
    def setup
      super
      skip "Rails' newest needs Ruby 3.2 or newer" if RUBY_VERSION < "3.2" && bundle == "frameworks"
      skip "the bundle #{bundle} is not installed; rake test:frameworks does it" unless File.exist?("#{bundle_folder}/Gemfile.lock")
    end

    def bundle = "frameworks"
    def bundle_folder = File.join(Helpers::ROOT, "vendor/bundle", "#{bundle}-#{RUBY_ENGINE}-#{RbConfig::CONFIG["ruby_version"]}")

    def bundled(mode = "production", **more)
      without_bundle.merge("BUNDLE_GEMFILE" => "#{bundle_folder}/Gemfile", "RAILS_ENV" => mode, "RACK_ENV" => nil, "APP_ENV" => nil, "PORT" => nil,
                           "RUBYOPT" => "-rbundler/setup", "RUBYLIB" => Helpers::LIB, **more)
    end
  end
end
