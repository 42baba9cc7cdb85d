# frozen_string_literal: true

# What becomes of Active Support's isolation level. Active Support is here, in processes of its own;
# Rails and Active Record are played (test/frameworks has the real ones).

require "test_helper"

class WebIsolationTest < Minitest::Test
  PROGRAM = <<~'RUBY'
    require "gyre/web"
    server = Gyre::Web::Server.new(->(_env) { [200, {}, []] }, bind: "127.0.0.1:0", log: Gyre::Web::ServerLog.new(notices: $stdout))
    begin
      server.listen
      puts "level #{ActiveSupport::IsolatedExecutionState.isolation_level}" if defined?(ActiveSupport::IsolatedExecutionState)
    rescue Gyre::StartError => error
      puts "refused: #{error.message}"
    ensure
      server.close
    end
  RUBY
  ACTIVE_SUPPORT = "require 'active_support'; require 'active_support/isolated_execution_state'\n"
  RAILS = <<~'RUBY'
    require "active_support/ordered_options"
    module Rails
      Config = Struct.new(:active_support)
      App = Struct.new(:config)
      def self.application = @application ||= App.new(Config.new(ActiveSupport::OrderedOptions.new))
    end
  RUBY

  def test_by_thread_becomes_by_fiber_and_is_reported
    out = run_with(ACTIVE_SUPPORT)
    assert_equal "Active Support's isolation level is :fiber now, for requests share a thread\nlevel fiber\n", out
    assert_equal out, run_with(ACTIVE_SUPPORT + RAILS)
  end

  def test_by_fiber_stays_and_nothing_is_reported
    assert_equal "level fiber\n", run_with("#{ACTIVE_SUPPORT}ActiveSupport::IsolatedExecutionState.isolation_level = :fiber\n")
  end

  def test_an_app_that_asks_for_threads_is_refused_in_words
    out = run_with("#{ACTIVE_SUPPORT}#{RAILS}Rails.application.config.active_support.isolation_level = :thread\n")
    assert_match(/\Arefused: config\.active_support\.isolation_level is :thread\. .*Set it to :fiber/, out)
  end

  def test_events_of_sockets_run_in_rails_executor_unless_the_application_says_otherwise
    app = <<~'RUBY'
      module Rails
        Config = Struct.new(:gyre)
        App = Struct.new(:config, :executor)
        def self.application = @application ||= App.new(Config.new(Struct.new(:executor).new(GIVEN)), :executor)
      end
      at_exit { p Gyre::Job.executor }
    RUBY
    assert_match(/^nil$/, run_with("#{ACTIVE_SUPPORT}GIVEN = false\n#{app}"))
    assert_match(/^:executor$/, run_with("#{ACTIVE_SUPPORT}GIVEN = true\n#{app}"))
  end

  def test_connections_that_were_lent_by_thread_are_given_back_first
    out = run_with(ACTIVE_SUPPORT + <<~'RUBY')
      module ActiveRecord
        def self.version = Gem::Version.new("7.1.0")
        class Base
          def self.connection_handler = self
          def self.clear_active_connections!(role) = puts("#{role} given back by #{ActiveSupport::IsolatedExecutionState.isolation_level}")
        end
      end
    RUBY
    assert_match(/\Aall given back by thread$/, out)
    assert_match(/^level fiber$/, out)
  end

  def test_an_active_record_that_supports_only_threads_is_refused
    assert_match(/\Arefused: Active Record before 7\.1 /, run_with("module ActiveRecord; class Base; end; end\n"))
    version = 'def self.version = Gem::Version.new("7.0.8")'
    assert_match(/\Arefused: .*Rails 7\.1 or newer/, run_with("#{ACTIVE_SUPPORT}module ActiveRecord; #{version}; class Base; end; end\n"))
  end

  def test_without_active_support_nothing_happens
    assert_equal "", run_with("")
  end

  private

  def run_with(before)
    output = ruby("-e", "#{before}#{PROGRAM}", gems: true)
    output.err = output.err.lines.grep_v(%r{/gems/.*warning: }).join
    assert_equal "", output.err
    output.out.sub(/^I18n's locale is by request now.*\n/, "") # before Ruby 3.2 (ThreadState)
  end
end
