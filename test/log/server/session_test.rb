# frozen_string_literal: true

# Acknowledged clients and the table of them: Gyre::Log::Session and Sessions.

require "test_helper"
require "gyre"
require "gyre/log"
require "gyre/log/output/defaults"
require "gyre/log/server/session"

class LogSessionTest < Minitest::Test
  # The ingest's, whose numbers a test sets.
  Ingested = Struct.new(:client_id, :received, :durable, :refused) do
    prepend Gyre::Log::Session

    def refused? = refused
  end
  Listening = Struct.new(:count, :replacements) do
    def acknowledged
      self.count += 1
    end

    def replaced
      self.replacements = replacements.to_i + 1
    end
  end

  def test_acknowledgements_only_go_forward
    session = sessions.find("a", listening = Listening.new(0))
    [3, 2, 3, 5].each { |sequence| settle(session, sequence) }
    assert_equal [5, 2], [session.acknowledged, listening.count]
  end

  def test_it_is_pending_until_all_is_durable
    session = sessions.find("a", Listening.new(0))
    assert_equal [0, false], [session.acknowledged, session.pending?]
    session.received = 4
    settle(session, 3)
    assert_equal [3, true], [session.acknowledged, session.pending?]
    settle(session, 4)
    refute_predicate session, :pending?
  end

  def test_it_is_the_ingests
    session = Gyre::Log::Ingest.new.session("a" * 32)
    assert_equal ["a" * 32, 0, 0, false], [session.client_id, session.received, session.acknowledged, session.pending?]
    assert_same session.client_id, session.client_id
  end

  def test_a_client_that_comes_again_has_its_session_and_the_former_connection_is_replaced
    table = sessions
    session = table.find("a", first = Listening.new(0))
    assert_same session, table.find("a", second = Listening.new(0))
    assert_equal [1, 1, nil], [table.size, first.replacements, second.replacements]
    assert_same second, session.connection
  end

  def test_a_client_whose_record_was_refused_is_looked_up_again_once_nothing_is_pending
    table = sessions
    session = table.find("a", first = Listening.new(0))
    session.received = 1
    session.refused = true
    assert_same session, table.find("a", Listening.new(0)), "its records are on their way"
    settle(session, 1)
    fresh = table.find("a", Listening.new(0))
    refute_same session, fresh
    assert_equal [1, nil, 1], [table.size, session.connection, first.replacements]
  end

  def test_a_client_of_which_an_output_knows_nothing_yet_has_no_session
    table = Gyre::Log::Sessions.new(10) { raise Gyre::Log::Output::Unavailable, "not yet" }
    assert_raises(Gyre::Log::Output::Unavailable) { table.find("a", Listening.new(0)) }
    assert_equal 0, table.size
  end

  def test_a_refused_session_stays_until_the_new_one_opens
    opening = [-> { Ingested.new("a", 0, 0) }, -> { raise Gyre::Log::Output::Unavailable, "not yet" }, -> { Ingested.new("a", 1, 1) }]
    table = Gyre::Log::Sessions.new(10) { opening.shift.call }
    session = table.find("a", first = Listening.new(0))
    session.refused = true
    assert_raises(Gyre::Log::Output::Unavailable) { table.find("a", Listening.new(0)) }
    assert_equal [1, 1, nil], [table.size, first.replacements, session.connection]
    session.received = 1
    assert_same session, table.find("a", Listening.new(0)), "its records are on their way"
    settle(session, 1)
    refute_same session, table.find("a", Listening.new(0))
    assert_equal [1, []], [table.size, opening]
  end

  def test_the_one_that_was_away_longest_is_forgotten
    table = sessions(limit: 2)
    first, = %w[a b].map { |id| come_and_go(table, id) }
    assert_same first, come_and_go(table, "a")
    come_and_go(table, "c")
    assert_equal %w[a c], table.instance_variable_get(:@sessions).keys
    assert_same first, come_and_go(table, "a")
  end

  def test_no_client_is_forgotten_that_is_there_or_not_durable_yet
    table = sessions(limit: 2)
    table.find("a", Listening.new(0))
    come_and_go(table, "b").received = 1
    come_and_go(table, "c")
    come_and_go(table, "d")
    assert_equal %w[a b d], table.instance_variable_get(:@sessions).keys
  end

  private

  def settle(session, durable)
    session.durable = durable
    session.settle
  end

  def come_and_go(table, id)
    table.find(id, Listening.new(0)).tap { |session| session.connection = nil }
  end

  def sessions(limit: 10)
    Gyre::Log::Sessions.new(limit) { |id| Ingested.new(id, 0, 0) }
  end
end
