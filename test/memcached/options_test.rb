# frozen_string_literal: true

# Gyre::Memcached::Options: defaults, what goes where, and what is refused.

require "test_helper"
require "openssl"
require "gyre/memcached/options"

class MemcachedOptionsTest < Minitest::Test
  Options = Gyre::Memcached::Options
  NAMES = %i[failover cache_nils socket_timeout socket_failure_delay down_retry_delay username].freeze

  def test_defaults
    options = Options.new
    assert_equal [true, false, 1, 0.1, 30, nil], NAMES.map { |name| options[name] }
    assert_equal [1, 2, nil], [options.connect_timeout_s, options.failures_limit, options.tls]
    assert_equal [0, "key", 4], [options.expiry.seconds(nil), options.keys.full("key"), options.values.dump("key", "text").last]
  end

  def test_what_is_given_reaches_its_part
    options = Options.new({ namespace: "app", expires_in: 60, serializer: Marshal, failover: false, cache_nils: true, socket_timeout: 5,
                            connect_timeout: 0.5, socket_max_failures: 1, down_retry_delay: 0, username: "me", compress: nil })
    assert_equal ["app:key", 60, Marshal.dump([1])], [options.keys.full("key"), options.expiry.seconds(nil), options.values.dump("key", [1]).first]
    assert_equal [false, true, 5, 0.1, 0, "me"], NAMES.map { |name| options[name] }
    assert_equal [0.5, 1], [options.connect_timeout_s, options.failures_limit]
  end

  def test_a_password_is_not_shown
    refute_includes Options.new({ username: "me", password: "secret" }).inspect, "secret"
  end

  def test_a_logger_or_what_returns_one
    logger = Object.new.tap { |object| def object.warn(*) = nil }
    assert_equal [nil, logger, logger], [nil, logger, -> { logger }].map { |given| Options.new({ logger: given }).logger }
    assert_raises(ArgumentError) { Options.new({ logger: "log" }) }
  end

  def test_an_unknown_one_is_an_error
    error = assert_raises(ArgumentError) { Options.new({ namspace: "app" }) }
    assert_match(/\Anamspace: unknown option of a memcached client; did you mean namespace\?/, error.message)
    Options.new(Options::WITHOUT_EFFECT.to_h { |name| [name, true] })
  end

  # Those that set_params gives to a context without authorities of its own.
  def test_a_context_of_openssls_with_the_systems_authorities
    context = OpenSSL::SSL::SSLContext.new.tap(&:set_params)
    assert_predicate Options.new({ ssl_context: context }).tls, :verifies?
  end

  def test_a_context_of_openssls_with_a_store_in_memory_names_the_ways_out
    context = OpenSSL::SSL::SSLContext.new.tap { |made| made.cert_store = OpenSSL::X509::Store.new }
    error = assert_raises(ArgumentError) { Options.new({ ssl_context: context }) }
    assert_match(/PEM file.* ca_file instead, or use tls: Gyre::TLS.client\(ca: path\)/, error.message)
  end

  def test_an_invalid_time_or_count_is_an_error
    [{ socket_timeout: 0 }, { connect_timeout: "soon" }, { down_retry_delay: -1 }, { socket_max_failures: -1 }, { socket_failure_delay: -1 },
     { expires_in: "soon" }].each { |given| assert_raises(ArgumentError, given.inspect) { Options.new(given) } }
    assert_nil Options.new({ socket_timeout: nil })[:socket_timeout]
  end
end
