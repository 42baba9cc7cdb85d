# frozen_string_literal: true

# Acknowledged clients and the table of them: Gyre::Log::Session and Sessions.

require "test_helper"
require "gyre"
require "gyre/log/server/session"

class LogSessionTest < Minitest::Test
  Intake = Struct.new(:client_id, :received, :durable) do
    def refused?
      false
    end

    def stored(_sink, sequence)
      self.durable = sequence
    end
  end
  Listening = Struct.new(:count, :replacements, :result) do
    def acknowledged
      self.count += 1
    end

    def replaced
      self.replacements = replacements.to_i + 1
    end

    def completed(result)
      self.result = result
    end

    def closed?
      count.nil?
    end
  end

  def test_acknowledgements_only_go_forward
    session = sessions.find("a", listening = Listening.new(0))
    [3, 2, 3, 5].each { |sequence| session.acknowledge(sequence) }
    assert_equal [5, 2], [session.acknowledged, listening.count]
  end

  def test_it_acknowledges_what_is_durable_in_the_ingest
    session = sessions.find("a", Listening.new(0))
    session.intake.received = 4
    session.stored(:sink, 3)
    assert_equal 0, session.acknowledged
    session.settle
    assert_equal 3, session.acknowledged
    assert_predicate session, :pending?
  end

  def test_it_is_pending_until_all_is_durable
    session = sessions.find("a", Listening.new(0))
    refute_predicate session, :pending?
    session.intake.received = 4
    assert_predicate session, :pending?
    session.acknowledge(4)
    refute_predicate session, :pending?
  end

  def test_a_client_that_comes_again_has_its_session_and_the_former_connection_is_replaced
    table = sessions
    session = table.find("a", first = Listening.new(0))
    assert_same session, table.find("a", second = Listening.new(0))
    assert_equal [1, 1, nil], [table.size, first.replacements, second.replacements]
    assert_same second, session.connection
  end

  # Another server may have stored something for it meanwhile.
  def test_where_the_output_is_shared_a_client_that_comes_again_is_looked_up_again
    Gyre.run do
      table = sessions(shared: ->(_) { true })
      assert_nil table.find("a", connection = Listening.new(0))
      first = connection.result
      assert_same connection, first.connection
      first.intake.received = 1
      assert_same first, table.find("a", Listening.new(0)), "what is under way here is known here"
      first.acknowledge(1)
      assert_nil table.find("a", again = Listening.new(0))
      refute_same first, again.result
      assert_equal [1, nil], [table.size, first.connection]
    end
  end

  def test_while_one_is_looked_up_others_come_and_go
    answers = { "a" => Gyre::Queue.new, "b" => Gyre::Queue.new }
    Gyre.run do
      table = Gyre::Log::Sessions.new(10, shared: ->(_) { true }) { |id| answers.fetch(id).pop.call(id) }
      connections = Array.new(3) { Listening.new(0) }
      connections.zip(%w[a a b]) { |connection, id| table.find(id, connection) }
      assert_equal [1, nil, nil], connections.map(&:replacements), "of a client that comes twice only the last connection waits"
      answers["b"].push(->(id) { Intake.new(id, 0) })
      eventually { connections[2].result }
      answers["a"].push(->(_) { raise IOError, "cannot be asked" })
      eventually { connections[1].result }
      assert_equal [NilClass, IOError, Gyre::Log::Session], connections.map { |connection| connection.result.class }
      assert_equal ["b"], table.map(&:client_id)
    end
  end

  def test_a_lookup_can_be_given_up
    Gyre.run do |task|
      table = Gyre::Log::Sessions.new(10, shared: ->(_) { true }) { sleep }
      table.find("a", connection = Listening.new(0))
      assert_equal 1, task.children.count
      table.stop
      assert_empty task.children.to_a
      assert_nil connection.result
    end
  end

  def test_a_client_that_left_before_the_result_has_no_session
    Gyre.run do
      table = sessions(shared: ->(_) { true })
      table.find("a", connection = Listening.new(nil))
      assert_nil connection.result.connection
    end
  end

  def test_the_one_that_was_away_longest_is_forgotten
    table = sessions(limit: 2)
    first, = %w[a b].map { |id| come_and_go(table, id) }
    assert_same first, come_and_go(table, "a")
    come_and_go(table, "c")
    assert_equal %w[a c], table.map(&:client_id)
    assert_same first, come_and_go(table, "a")
  end

  def test_no_client_is_forgotten_that_is_there_or_not_durable_yet
    table = sessions(limit: 2)
    table.find("a", Listening.new(0))
    come_and_go(table, "b").intake.received = 1
    come_and_go(table, "c")
    come_and_go(table, "d")
    assert_equal %w[a b d], table.map(&:client_id)
  end

  private

  def come_and_go(table, id)
    table.find(id, Listening.new(0)).tap { |session| session.connection = nil }
  end

  def sessions(limit: 10, **options)
    Gyre::Log::Sessions.new(limit, **options) { |id| Intake.new(id, 0) }
  end
end
