# frozen_string_literal: true

# Gems that keep state by thread: what is set, and what is reported with the line to write. The gems
# are played, in processes of their own. (Gyre::Web::ThreadState.)

require "test_helper"
require "gyre/web/frameworks/thread_state"

class WebThreadStateTest < Minitest::Test
  PROGRAM = <<~'RUBY'
    require "gyre/web"
    def has(name, version) = Gem.loaded_specs[name] = Gem::Specification.new(name, version)
    def listen
      server = Gyre::Web::Server.new(->(_env) { [200, {}, []] }, bind: "127.0.0.1:0", log: Gyre::Web::ServerLog.new(notices: $stdout, errors: $stdout))
      server.listen
    ensure
      server.close
    end
  RUBY
  # As i18n 1.14.8, and 1.15 before Ruby 3.2.
  I18N = <<~'RUBY'
    module I18n
      class Config
        attr_writer :locale
        def locale = @locale || :en
      end
      class << self
        def config = Thread.current.thread_variable_get(:i18n_config) || Thread.current.thread_variable_set(:i18n_config, Config.new)
        def config=(value)
          Thread.current.thread_variable_set(:i18n_config, value)
        end
        def locale = config.locale
        def locale=(value)
          config.locale = value
        end
      end
    end
  RUBY

  def test_a_locale_by_thread_becomes_one_of_each_request
    code = I18N + <<~'RUBY'
      2.times { listen }
      I18n.locale = :de
      inner = Fiber.new { I18n.locale.tap { I18n.locale = :fr } }.resume
      p [:de, inner, Gyre.run { I18n.locale }, I18n.locale]
    RUBY
    assert_equal "I18n's locale is by request now, for requests share a thread\n[:de, :de, :en, :fr]\n", run_with(code)
    assert_empty run_with("module I18n; def self.config = Thread.current[:i18n_config] ||= Object.new; end\nlisten")
  end

  def test_sequels_connections_become_those_of_requests
    code = <<~'RUBY'
      module Sequel
        extend(Module.new { def current = Thread.current })
      end
      2.times { listen }
      p [Sequel.current, Gyre.run { Fiber.new { Sequel.current }.resume == Fiber.current }] == [Thread.current, true]
    RUBY
    assert_match(/\ASequel's connections are by request now.*\ntrue\n\z/, run_with(code))
  end

  def test_a_gem_that_mixes_requests_is_reported_once_with_its_version_and_what_to_write
    out = run_with('has("mongoid", "9.0.12"); has("request_store", "1.7.0"); 2.times { listen }')
    assert_match(/\A\S+ gyre: mongoid 9\.0\.12 keeps state by thread, .*: requests share sessions, .*\. Write: gem "mongoid", ">= 9\.1".*\n\z/, out)
    assert_equal 1, out.lines.size
    assert_empty run_with('has("mongoid", "9.1.0"); listen')
  end

  def test_a_gem_whose_setting_is_right_is_not_reported
    sentry = <<~'RUBY'
      has("sentry-ruby", "7.2.0")
      module Sentry
        def self.initialized? = true
        def self.configuration = Struct.new(:hub_isolation_level).new(LEVEL)
      end
    RUBY
    assert_match(/sentry-ruby 7\.2\.0 .*Write: config\.hub_isolation_level = :fiber in Sentry\.init/, run_with("#{sentry}LEVEL = :thread; listen"))
    assert_empty run_with("#{sentry}LEVEL = :fiber; listen")
    assert_empty run_with('has("sentry-ruby", "7.2.0"); has("chewy", "8.0.0"); has("shopify_api", "16.3.0"); has("bullet", "8.1.3"); listen')
  end

  def test_the_guide_has_each_gem
    guide = File.read("#{ROOT}/docs/from-puma.md").delete("`")
    Gyre::Web::ThreadState::TABLE.each do |row|
      assert_includes guide, "| #{row.name} |", row.name
      assert_includes guide, row.remedy[/\A[^(]+(?= \()|\A.*\z/], row.name
    end
  end

  private

  def run_with(code)
    output = ruby("-e", PROGRAM + code)
    assert_empty output.err
    output.out
  end
end
