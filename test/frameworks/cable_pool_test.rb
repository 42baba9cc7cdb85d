# frozen_string_literal: true

# Actions of cables and requests take their database connections from one pool, so they take places
# of one limit (requests_limit). Run by `rake test:frameworks`.

require "test_helper"
require_relative "cables"

class CablePoolTest < Minitest::Test
  include GyreTest::Cables

  # A connection that is not there at once raises: a work that began without a place would fail.
  APP = %(require "rails"\nrequire "active_record/railtie"\n) + BEGINNING + <<~'RUBY'
    ENV["DATABASE_URL"] = "sqlite3:#{Dir.pwd}/test.sqlite3?pool=2&checkout_timeout=0.05"
    Entry = Class.new(ActiveRecord::Base)
    # Holds a connection while it waits, and gives handlers of streams work meanwhile.
    HOLD = lambda do
      Entry.transaction do
        $most = [$most, Entry.connection_pool.stat[:busy]].max
        ActionCable.server.broadcast("held", 1)
        sleep(0.3)
      end
    end
    class HoldChannel < ApplicationCable::Channel
      def subscribed = stream_from("held") { |_| Entry.count.then { transmit({ heard: true }) } }
      def hold(_) = HOLD.call.then { transmit({ held: true }) }
    end
    class PagesController < ActionController::Base
      def hold = HOLD.call.then { render(plain: "held") }
      def most = render(plain: "#{$most} #{request.env["gyre.server"].stats.values_at(:waiting, :shed).sum}")
    end
    $most = 0
    ActionCable.server.config.cable = { "adapter" => "async" }
    CableApp.routes.append { %w[hold most].each { |name| get name, to: "pages##{name}" } }
    CableApp.initialize!
    ActiveRecord::Schema.verbose = false
    ActiveRecord::Schema.define { create_table(:entries, if_not_exists: true) { |table| table.integer :number } }
    ActiveRecord::Base.connection_handler.clear_active_connections!(:all) # that of this file
    run CableApp
  RUBY

  def self.time_limit_s = 120

  def test_actions_and_requests_share_the_databases_pool
    output = +""
    serving(output: output) do |url, program|
      cables = Array.new(3) { enter(url, "ann").subscribed("HoldChannel") }
      cables.each { |cable| cable.send("message", "HoldChannel", action: "hold") }
      pages = Array.new(2) { Thread.new { get(url, "/hold").body } }
      assert_equal %w[held held], pages.map(&:value), program.text(:err)
      # Each hears all five; its own action ends among these.
      messages = cables.map { |cable| Array.new(6) { cable.read["message"].keys.first }.tally }
      assert_equal [{ "heard" => 5, "held" => 1 }], messages.uniq
      assert_equal "2 0", get(url, "/most").body
    ensure
      cables&.each { |cable| cable.socket.close }
    end
    assert_includes output, "2 requests run at a time"
    refute_match(/Error/, output)
  end
end
