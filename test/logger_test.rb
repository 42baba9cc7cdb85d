# frozen_string_literal: true

# Without Ruby's Logger the error names the gem, once, for each part that needs it.
require "test_helper"

class LoggerTest < Minitest::Test
  HIDE = 'module Kernel; alias_method :r, :require; def require(path) = path == "logger" ? raise(LoadError, "hidden") : r(path); end'

  %w[gyre/log/client gyre/memcached/dalli].each do |feature|
    define_method("test_#{feature} names the gem that is missing") do
      run = ruby("-W0", "-e", "#{HIDE}; begin; require #{feature.dump}; rescue LoadError => error; print error.message; end")
      assert_match(/\Agyre: the gem logger is missing \(hidden\): `gem install logger`, or put `gem "logger"` into the Gemfile\z/, run.out, run.err)
    end
  end
end
