# frozen_string_literal: true

# Dalli's client, Gyre's and Gyre's under Dalli's name behave alike: the cases of
# memcached_contract.rb against each.

require "test_helper"
require "support/dalli_gem"
require "support/memcached_server"
require "gyre/memcached"
require_relative "memcached_contract"

class MemcachedClientContractTest < Minitest::Test
  include GyreTest::MemcachedContract

  ERRORS = { DalliError: :Error, RingError: :NoServerError, MarshalError: :SerializationError, UnmarshalError: :DeserializationError,
             ValueOverMaxSize: :ValueTooLarge, NotPermittedMultiOpError: :NotPermittedInQuiet }.freeze

  def setup
    @memcached = GyreTest::MemcachedServer.new(need_program("memcached"))
    super
  end

  def teardown
    super
    @memcached&.close
  end

  def address = @memcached.address
  def new_client(server: address, **options) = Gyre::Memcached::Client.new(server, socket_timeout: 60, **options)
  def error(name) = Gyre::Memcached.const_get(ERRORS.fetch(name, name))
  def gem_version = nil

  # What is this client's own.
  def test_what_the_default_serializer_cannot_store_names_the_way_out
    error = assert_raises(Gyre::Memcached::SerializationError) { client.set("key", 1..2) }
    assert_match(/Range is not among .* serializer: Marshal/, error.message)
  end

  def test_keys_have_no_control_characters
    ["a\r\nset b 0 0 1\r\nx", "a\0", "\t"].each { |key| assert_raises(ArgumentError) { client.get(key) } }
  end
end

class DalliMemcachedContractTest < Minitest::Test
  include GyreTest::DalliGem

  PROGRAM = File.join(__dir__, "memcached_dalli_program.rb")

  def self.time_limit_s = 120

  def setup
    @memcached = GyreTest::MemcachedServer.new(need_program("memcached"))
  end

  def teardown
    @memcached&.close
  end

  def test_the_gem
    need_dalli
    run = dalli_program(PROGRAM, "dalli", @memcached.address, within_s: 100)
    assert_predicate run.status, :success?, run.out + run.err
  end

  def test_gyre_under_its_name
    run = ruby(PROGRAM, "gyre/memcached/dalli", @memcached.address, gems: true, within_s: 100)
    assert_predicate run.status, :success?, run.out + run.err
    assert_match(/ 0 skips/, run.out)
  end
end
