# frozen_string_literal: true

# Runs the contract of memcached clients against what `require "dalli"` or `require
# "gyre/memcached/dalli"` (the argument) makes of Dalli::Client: `ruby memcached_dalli_program.rb
# LIBRARY ADDRESS`. Started by contracts/memcached_client_test.rb.
library, ADDRESS = ARGV
ARGV.clear
require "minitest/autorun"
require "logger"
require library
require_relative "memcached_contract"

OURS = library != "dalli"
Dalli.logger = Logger.new(nil)

class DalliContractTest < Minitest::Test
  include GyreTest::MemcachedContract

  # Dalli 3 asks for the meta protocol; later ones and ours have no other.
  PROTOCOL = Dalli::VERSION < "4" ? { protocol: :meta } : {}

  def new_client(server: ADDRESS, **options) = Dalli::Client.new(server, { socket_timeout: 60, **PROTOCOL, **options })
  def error(name) = Dalli.const_get(name)
  def gem_version = OURS ? nil : Dalli::VERSION
  def address = ADDRESS

  def test_the_thread_knows_that_a_block_is_quiet
    client.quiet do
      client.multi { assert Thread.current[Dalli::QUIET] }
      assert Thread.current[Dalli::QUIET]
    end
    refute Thread.current[Dalli::QUIET]
  end

  def test_a_client_of_no_servers
    [[], ""].each do |empty|
      none = new_client(server: empty)
      assert_raises(error(:RingError)) { none.get("a") }
      assert_equal [{}, {}], [none.get_multi("a"), none.stats]
      assert_equal [], none.flush
    ensure
      none&.close
    end
  end

  def test_every_error_is_a_dalli_error
    %i[NetworkError RingError MarshalError UnmarshalError ValueOverMaxSize NotPermittedMultiOpError].each do |name|
      assert_operator Dalli.const_get(name), :<, Dalli::DalliError
    end
  end
end
