# frozen_string_literal: true

require "test_helper"
require "gyre/log/client/backlog"
require "gyre/log/client/spools"
require "oracle/log/records"
require "gyre/loop"
require "tmpdir"

# What a log client has and its server has not acknowledged; its whole is tested with the client's
# outages.
class LogBacklogTest < Minitest::Test
  IDENTITY = Gyre::Log::Identity.fresh

  def setup
    Gyre::Loop.require_native("the log client")
    @folder = Dir.mktmpdir
    @outbox = Gyre::Log::Outbox.new("app", 1 << 20, 1 << 20, false)
  end

  def teardown
    FileUtils.rm_rf(@folder)
  end

  def backlog(**options)
    Gyre::Log::Backlog.new(@outbox, memory: 2 << 20, **options)
  end

  # The spool of a process that has ended, with these records.
  def orphan(numbers)
    options = { limit: 1 << 20, record_limit: 1 << 20 }
    spool = Gyre::Log::Spools.create(@folder, "app", IDENTITY, **options)
    numbers.each do |number|
      spool.append(Gyre::Log::Records.encode(seq: number, time_us: 1, service: "app", severity: "info", message: "m"))
    end
    spool
  end

  def test_what_the_server_acknowledged_before_it_was_given_again_is_done
    backlog = backlog()
    10.times { @outbox.append("info", "m") }
    assert_equal 10, backlog.give.last
    backlog.rewind # the connection is lost, with the acknowledgement
    backlog.acknowledge(10)
    assert_nil backlog.give
    assert_predicate backlog, :empty?
  end

  def test_an_acknowledgement_that_comes_while_the_first_batches_are_given_again
    backlog = backlog()
    2.times do
      @outbox.append("info", "m" * 100_000)
      backlog.give
    end
    backlog.rewind
    assert_equal 1, backlog.give.last
    backlog.acknowledge(2)
    assert_nil backlog.give
    assert_predicate backlog, :empty?
  end

  def test_of_an_adopted_spool_the_server_may_have_more_than_is_in_it
    backlog = backlog(spool: orphan(5..9))
    backlog.acknowledge(20) # the dead process had sent up to there
    assert_nil backlog.give
    assert_predicate backlog, :empty?
    assert_empty Dir.children(@folder)
  end

  def test_a_part_of_an_adopted_spool
    backlog = backlog(spool: orphan(5..9))
    backlog.acknowledge(7)
    assert_equal 9, backlog.give.last
    backlog.acknowledge(9)
    assert_predicate backlog, :empty?
  end

  def test_what_was_not_sent_cannot_be_acknowledged
    backlog = backlog()
    @outbox.append("info", "m")
    backlog.give
    assert_raises(Gyre::ProtocolError) { backlog.acknowledge(2) }
  end
end
