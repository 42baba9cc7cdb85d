# frozen_string_literal: true

# Acknowledged clients and the table of them: Gyre::Log::Session and Sessions.

require "test_helper"
require "gyre/log/session"

class LogSessionTest < Minitest::Test
  Intake = Struct.new(:client_id, :received)
  Listening = Struct.new(:count) do
    def acknowledged
      self.count += 1
    end
  end

  def test_acknowledgements_only_go_forward
    session = sessions.fetch("a")
    session.connection = listening = Listening.new(0)
    [3, 2, 3, 5].each { |sequence| session.acknowledge(sequence) }
    assert_equal [5, 2], [session.acknowledged, listening.count]
  end

  def test_it_is_pending_until_all_is_durable
    session = sessions.fetch("a")
    refute_predicate session, :pending?
    session.intake.received = 4
    assert_predicate session, :pending?
    session.acknowledge(4)
    refute_predicate session, :pending?
  end

  def test_a_client_that_comes_again_has_its_session
    table = sessions
    assert_same table.fetch("a"), table.fetch("a")
    assert_equal 1, table.size
  end

  # Another server may have stored something for it meanwhile.
  def test_where_the_output_is_shared_a_client_that_comes_again_is_asked_about_anew
    table = sessions(shared: true)
    first = table.fetch("a")
    first.connection = Listening.new(0)
    first.intake.received = 1
    assert_same first, table.fetch("a"), "what is under way here is known here"
    first.acknowledge(1)
    second = table.fetch("a")
    refute_same first, second
    assert_same first.connection, second.connection, "so that it is replaced"
    assert_equal 1, table.size
  end

  def test_the_one_that_was_away_longest_is_forgotten
    table = sessions(limit: 2)
    first, = %w[a b].map { |id| table.fetch(id) }
    assert_same first, table.fetch("a")
    table.fetch("c")
    assert_equal %w[a c], table.map(&:client_id)
    assert_same first, table.fetch("a")
  end

  def test_nobody_is_forgotten_who_is_there_or_not_durable_yet
    table = sessions(limit: 2)
    table.fetch("a").connection = Listening.new(0)
    table.fetch("b").intake.received = 1
    table.fetch("c")
    table.fetch("d")
    assert_equal %w[a b d], table.map(&:client_id)
  end

  private

  def sessions(limit: 10, **options)
    Gyre::Log::Sessions.new(limit, **options) { |id| Intake.new(id, 0) }
  end
end
