# frozen_string_literal: true

# What tests of frameworks share: the bundle of gems.rb, which `rake test:frameworks` installs, and
# the environment of a program with it. No test itself.
module GyreTest
  # For test classes.
  module Bundled
    FOLDER = File.join(Helpers::ROOT, "vendor/bundle", "frameworks-#{RUBY_ENGINE}-#{RbConfig::CONFIG["ruby_version"]}")

    def setup
      super
      skip "Rails' newest needs Ruby 3.2 or newer" if RUBY_VERSION < "3.2"
      skip "the frameworks' bundle is not installed; rake test:frameworks does it" unless File.exist?("#{FOLDER}/Gemfile.lock")
    end

    def bundled(mode = "production", **more)
      without_bundle.merge("BUNDLE_GEMFILE" => "#{FOLDER}/Gemfile", "RAILS_ENV" => mode, "RACK_ENV" => nil, "APP_ENV" => nil, "PORT" => nil,
                           "RUBYOPT" => "-rbundler/setup", "RUBYLIB" => Helpers::LIB, **more)
    end
  end
end
