# frozen_string_literal: true

# Loaded before the gems' specs: what they expect of old Rubies, and of gems that no longer install.
# Called by rakelib/conformance_event_machine_gems.rake.
Object.const_set(:Fixnum, Integer) unless Object.const_defined?(:Fixnum) # em-hiredis

require "rack"
require "rack/handler/puma"

# em-http-request's server for tests.
module Rack
  module Handler
    module Mongrel
      def self.run(app, options) = Puma.run(app, **options, Silent: true)
    end
  end
end

# em-synchrony's specs load its clients of other servers, too.
%w[mysql2 em-remcached em-mongo em-redis amqp].each { |part| $LOADED_FEATURES << File.expand_path("lib/em-synchrony/#{part}.rb") }
