# frozen_string_literal: true

# What `require "gyre"` does in a Rails application: lib/gyre/rails.rb. Rails is played here;
# test/frameworks has the real one.

require "test_helper"

class RailsTest < Minitest::Test
  RAILS = <<~'RUBY'
    require "rackup/handler"
    require "active_support"
    require "active_support/isolated_execution_state"
    require "active_support/ordered_options"
    module Rails
      class Railtie
        Configuration = Struct.new(:blocks, :gyre) { def before_configuration(&block) = (self.blocks ||= []) << block }
        def self.initializer(_name, &block) = block
        def self.rake_tasks(&block) = block
        def self.config = (@@config ||= Configuration.new([]))
      end
    end
    require "gyre"
    App = Struct.new(:config)
    Config = Struct.new(:active_support)
    def level(given)
      app = App.new(Config.new(ActiveSupport::OrderedOptions.new))
      app.config.active_support.isolation_level = given
      Rails::Railtie.config.blocks.each { |block| block.call(app) }
      app.config.active_support.isolation_level
    end
  RUBY

  def test_state_is_kept_by_fiber_unless_the_application_says_otherwise
    assert_equal "[:fiber, :thread]\n", run_with("p [level(nil), level(:thread)]")
  end

  def test_state_belongs_to_the_job_in_every_process
    assert_equal "Gyre::Job\n", run_with(<<~RUBY)
      state = ActiveSupport::IsolatedExecutionState
      state.isolation_level = level(nil)
      p state.scope
    RUBY
  end

  def test_the_railtie_is_loaded_also_after_parts_of_gyre
    assert_equal "true\n", ruby("-e", RAILS.sub('require "gyre"', 'require "gyre"; p !Gyre::Railtie.nil?'), "-r", "gyre/web", gems: true).out
  end

  def test_bin_rails_server_starts_gyre_unless_another_server_is_named
    assert_equal "Gyre\n", run_with("puts Rackup::Handler.default")
    assert_equal "Other\n", run_with(<<~RUBY)
      module Other; end
      Rackup::Handler.register(:other, Other)
      ENV["RACKUP_HANDLER"] = "other"
      puts Rackup::Handler.default
    RUBY
  end

  # `gem "gyre", require: "gyre/memcached/dalli"` is the one line for server and cache.
  def test_what_stands_for_dalli_in_a_gemfile_brings_the_server_along
    assert_equal "Gyre\n", ruby("-e", RAILS.sub('require "gyre"', 'require "gyre/memcached/dalli"') + "puts Rackup::Handler.default", gems: true).out
  end

  def test_without_rails_nothing_of_it_is_loaded
    assert_equal "false\n", ruby("-e", "require 'gyre'; p $LOADED_FEATURES.any? { |path| path.end_with?('gyre/rails.rb') }", gems: true).out
  end

  private

  def run_with(code)
    output = ruby("-e", RAILS + code, gems: true)
    assert_empty output.err
    output.out
  end
end
