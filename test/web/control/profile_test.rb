# frozen_string_literal: true

# Gyre::Web::ControlProfile: answers to POST /profile. test/cli/profile_test.rb has it behind a
# control socket.

require "test_helper"
require "gyre/web"
require "gyre/web/control/profile"

class WebControlProfileTest < Minitest::Test
  NODES = [[0, 0, 0, 0], [0, 0, 0, 0], [1, 1, 2, 30]].freeze
  ANSWER = { "value" => { "seconds" => 1.0, "frames" => [[nil, nil, nil], ["a", "b", 1]], "nodes" => NODES } }.freeze

  def setup
    Gyre::Profile.check
  rescue Gyre::Error => error
    @refused = error.message
  end

  if RUBY_VERSION < "3.3"
    def test_a_ruby_that_cannot_is_told_in_a_line
      line = "a profile needs Ruby 3.3 or newer, and this is #{RUBY_VERSION}"
      assert_equal [409, { error: line }], post([["worker 1", ANSWER]])
      assert_equal line, assert_raises(Gyre::Error) { Gyre.profile { flunk } }.message
    end
  end

  def test_processes_are_merged_and_those_that_failed_are_named
    skip @refused if @refused
    status, answer = post([["worker 1", ANSWER], ["worker 2", { "error" => "ended meanwhile" }], ["worker 3", ANSWER], ["worker 4", {}]])
    assert_equal [200, 2, ["worker 2 ended meanwhile", "worker 4 sent not a profile"]], [status, *answer.values_at(:processes, :notes)]
    assert_equal [[0, 0, 0, 0], [0, 0, 0, 0], [1, 1, 4, 60]], answer[:profile]["nodes"]
    assert_equal [409, { error: "worker 1 has not answered" }], post([["worker 1", { "error" => "has not answered" }]])
    assert_equal [409, { error: "no worker serves" }], post([])
  end

  def test_seconds_are_a_positive_number_and_not_too_many
    ["", "seconds=", "seconds=0", "seconds=-1", "seconds=1e9", "seconds=3601", "seconds=1&x=1", nil].each do |query|
      assert_equal 400, post([], query: query).first, query
    end
  end

  def test_only_one_is_taken_at_a_time
    skip @refused if @refused
    answers = []
    control = Gyre::Web::ControlProfile.new { answers << control.call({ "QUERY_STRING" => "seconds=1" }).to_a and [["worker 1", ANSWER]] }
    2.times { assert_equal 200, Gyre.run { control.call({ "QUERY_STRING" => "seconds=1" }) }.status }
    assert_equal [[409, { error: "another profile is being taken" }]], answers.uniq
  end

  def test_a_client_that_leaves_ends_it
    skip @refused if @refused
    Gyre.run do |task|
      gone = Gyre::Promise.new
      ended = Gyre::Promise.new
      control = Gyre::Web::ControlProfile.new do
        gone.resolve(true)
        sleep
      ensure
        ended.resolve(true)
      end
      task.async { control.call({ "QUERY_STRING" => "seconds=60", "gyre.client_gone" => gone }) }
      assert ended.wait(timeout: 60)
    end
  end

  private

  def post(answers, query: "seconds=1") = Gyre.run { Gyre::Web::ControlProfile.new { answers }.call({ "QUERY_STRING" => query }) }.to_a
end
