# frozen_string_literal: true

# Dalli's client, Gyre's and Gyre's under Dalli's name behave alike: the cases of
# memcached_contract.rb against each, on a memcached of their own.

require "test_helper"
require "support/dalli_gem"
require "support/memcached_server"

class DalliMemcachedClientTest < Minitest::Test
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
end
