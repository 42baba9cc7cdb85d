# frozen_string_literal: true

# A client of an ACME authority: times of renewal (ARI), refusals and waits, from a server in front
# of Debian's pebble.

require "test_helper"
require "support/acme"
require "support/acme_front"

class WebACMEAuthorityTest < Minitest::Test
  include GyreTest::ACME

  DAY_S = 86_400
  Front = GyreTest::ACMEFront

  def setup
    super
    @front = Front.new(pebble)
    @store = store(@front.directory)
    serve(@store)
  end

  def teardown
    @front.close
    super
  end

  def test_a_window_in_the_past_renews_a_certificate_in_place_of_the_former_and_once
    first = issued
    answer_window(-2 * DAY_S, -DAY_S)
    assert_equal 1, renewals { due && look(@keeper) }
    refute_equal first.serial, @store.certificate(NAME).serial
    assert_equal [Authority.id(first)], orders.filter_map { |payload| payload["replaces"] }
    # The authority still suggests it, now for the new one; it waits an hour.
    assert_equal 0, renewals { look(@keeper) }
    assert_in_delta Time.now.to_f + 3600, @store.state(NAME)["next_at"], 60
  end

  def test_an_open_window_draws_a_time_in_it_and_asks_again_when_the_authority_says
    issued
    answer_window(600, DAY_S, "retry-after" => "3600")
    assert_equal 0, renewals { due && look(@keeper) }
    assert_in_delta Time.now.to_f + 2100, @store.state(NAME)["next_at"], 1510
    assert_nil @store.state(NAME)["error"]
    draws = suggestions(8)
    assert_equal [3600], draws.map(&:last).uniq
    assert(draws.all? { |at, _| at.between?(Time.now.to_f + 590, Time.now.to_f + DAY_S) })
    assert_equal 8, draws.uniq.size
    answer_window(60 * DAY_S, 61 * DAY_S, "retry-after" => "1")
    assert_equal 60, suggestions(1).first.last # no more often
  end

  def test_an_authority_without_windows_delays_no_renewal
    issued
    past = { start: "2026-01-02T00:00:00Z", end: "2026-01-02T00:00:00Z" } # a window has an extent
    ["", "[]", '{"suggestedWindow":{"start":"x","end":"y"}}', JSON.generate(suggestedWindow: past)].each do |text|
      @front.answer = ->(path, _) { [200, { "content-type" => "application/json" }, [text]] if path.start_with?("/renewal-info") }
      assert_equal(0, renewals { due && look(@keeper) }, text)
      assert_in_delta Time.now.to_f + (6 * 3600), @store.state(NAME)["next_at"], 60
    end
    assert_equal 4, @out.string.scan("suggests no time of renewal").size
  end

  def test_a_certificate_that_was_replaced_before_is_ordered_without_its_id
    issued
    answer_window(-2, -1) { |path, payload| Front.problem(409, "alreadyReplaced") if path == "/order-plz" && payload["replaces"] }
    assert_equal 2, renewals { due && look(@keeper) }
    assert_nil orders.last["replaces"]
    assert_nil @store.state(NAME)["error"]
  end

  def test_a_limit_waits_as_long_as_the_authority_says_and_the_old_certificate_serves
    first = issued
    answer_window(-2, -1) { |path, _| Front.problem(429, "rateLimited", "retry-after" => "7200") if path == "/order-plz" }
    assert_equal 1, renewals { due && look(@keeper) }
    assert_in_delta Time.now.to_f + 7200, @store.state(NAME)["next_at"], 60
    assert_equal 0, renewals { look(@keeper) }
    assert_equal first.serial, chain.first.serial
    answer_window(-2, -1) { |path, _| Front.problem(503, "serverInternal", "retry-after" => (Time.now + 9000).httpdate) if path == "/order-plz" }
    renewals { due && look(@keeper) }
    assert_in_delta Time.now.to_f + 9000, @store.state(NAME)["next_at"], 60
  end

  private

  def issued
    @keeper = keeper(@store, acme_directory: @front.directory) { @server.reload_tls }
    look(@keeper)
    @store.certificate(NAME)
  end

  def due = @store.write("#{NAME}.json", JSON.generate("next_at" => 0))

  def answer_window(from_s, to_s, **headers)
    window = { start: (Time.now + from_s).utc.iso8601, end: (Time.now + to_s).utc.iso8601 }
    @front.answer = lambda do |path, payload|
      next [200, { "content-type" => "application/json", **headers }, [JSON.generate(suggestedWindow: window)]] if path.start_with?("/renewal-info")

      yield path, payload if block_given? && payload
    end
  end

  def suggestions(count)
    Gyre.run do
      authority = Authority.new(@front.directory, @store.key, challenge: nil, tls: pebble.tls)
      Array.new(count) { authority.suggestion(@store.certificate(NAME)) }
    ensure
      authority&.close
    end
  end

  # Returns the number of orders that the block has made.
  def renewals
    @front.seen.clear
    yield
    orders.size
  end

  def orders = @front.seen.filter_map { |path, payload| payload if path == "/order-plz" && payload }
end
