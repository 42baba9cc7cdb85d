# frozen_string_literal: true

# Rack::Session::Dalli on Gyre's client, in a process with Rack's gems and the dalli gem installed:
# what is loaded is ours all the same.

require "test_helper"
require "support/dalli_gem"
require "support/memcached_server"

class MemcachedRackSessionTest < Minitest::Test
  include GyreTest::DalliGem

  def setup
    need_dalli
    @memcached = GyreTest::MemcachedServer.new(need_program("memcached"))
  end

  def teardown
    @memcached&.close
  end

  PROGRAM = <<~'RUBY'
    require "gyre/memcached/dalli"
    require "rack"
    require "rack/session/dalli"
    require "rack/mock_request"
    require "logger"
    Dalli.logger = Logger.new(nil)
    COUNTER = lambda do |env|
      session = env["rack.session"]
      session["count"] = session["count"].to_i + 1
      [200, {}, [session["count"].to_s]]
    end
    def get(app, cookie = nil, **options)
      response = Rack::MockRequest.new(app).get("/", { "HTTP_COOKIE" => cookie }.compact.merge(options))
      [response.status, response.body, response["set-cookie"].to_s[/\A[^;]*/]]
    end
    def app(inner = COUNTER, **options) = Rack::Session::Dalli.new(inner, memcache_server: ARGV[0], **options)
  RUBY

  def test_a_session_lives_in_memcached
    assert_equal %w[1 2 3 true], lines(<<~'RUBY')
      counter = app
      _, body, cookie = get(counter)
      puts body, get(counter, cookie)[1], get(app, cookie)[1], counter.data.is_a?(Gyre::Memcached::Client)
    RUBY
  end

  def test_an_unknown_id_gets_a_new_session_of_another_id
    assert_equal %w[1 true], lines(<<~'RUBY')
      _, body, cookie = get(app, "rack.session=#{"0" * 64}")
      puts body, cookie != "rack.session=#{"0" * 64}" && !cookie.empty?
    RUBY
  end

  def test_it_is_dropped_and_renewed
    assert_equal ["1", "", "1", "2", "true", "3"], lines(<<~'RUBY')
      _, body, cookie = get(app)
      dropping = app(lambda { |env| env["rack.session.options"][:drop] = true; COUNTER.call(env) && [200, {}, [""]] })
      puts body, get(dropping, cookie)[1], get(app, cookie)[1]
      _, _, cookie = get(app)
      renewing = app(lambda { |env| env["rack.session.options"][:renew] = true; COUNTER.call(env) })
      _, body, fresh = get(renewing, cookie)
      puts body, fresh != cookie, get(app, fresh)[1]
    RUBY
  end

  def test_one_that_was_deleted_meanwhile_is_not_written_again
    assert_equal ["401", "Wrong session ID", "1"], lines(<<~'RUBY')
      counter = app
      _, _, cookie = get(counter)
      deleting = app(lambda { |env| COUNTER.call(env).tap { counter.data.flush } })
      puts get(deleting, cookie).first(2), get(app, cookie)[1]
    RUBY
  end

  def test_it_expires
    assert_equal %w[true], lines(<<~'RUBY')
      limited = app(expire_after: 100)
      _, _, cookie = get(limited)
      id = Rack::Session::SessionId.new(cookie.split("=").last)
      puts (95..101).cover?(limited.data.get_with_metadata(id.private_id, return_ttl_remaining: true)[:ttl_remaining])
    RUBY
  end

  def test_one_that_cannot_be_read_begins_again
    assert_equal %w[1], lines(<<~'RUBY')
      counter = app
      _, _, cookie = get(counter)
      id = Rack::Session::SessionId.new(cookie.split("=").last)
      broken = Module.new { def self.dump(_) = "no form at all" }
      Dalli::Client.new(ARGV[0], namespace: "rack:session", serializer: broken).set(id.private_id, {})
      puts get(counter, cookie)[1]
    RUBY
  end

  def test_defaults_of_all_sessions_can_be_changed
    assert_equal %w[1 2 RuntimeError], lines(<<~'RUBY')
      Rack::Session::Dalli::DEFAULT_DALLI_OPTIONS[:memcache_server] = ARGV[0]
      _, body, cookie = get(Rack::Session::Dalli.new(COUNTER))
      puts body, get(app, cookie)[1]
      begin
        app(cache: Object.new)
      rescue => error
        puts error.class
      end
    RUBY
  end

  def test_without_memcached_the_application_runs
    @memcached.kill
    assert_equal %w[200 1], lines("puts get(app).first(2)")
  end

  private

  def lines(code)
    run = dalli_program("-W1", "-e", PROGRAM + code, @memcached.address)
    assert_equal "", run.err
    run.out.lines(chomp: true)
  end
end
