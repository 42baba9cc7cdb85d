# frozen_string_literal: true

# What a selection has out can be taken once, by whomever.

require "test_helper"
require "support/engines"
require "gyre"

GyreTest::Engines.test_case("SelectionOfferTest") do
  def test_the_first_one_has_it
    Gyre.run do |task|
      offer = nil # belongs to the fiber that makes it
      waiting = task.async { (offer = Gyre::Selection::Offer.new(self)).wait(nil) }
      seen = []
      assert(offer.take(:first) { seen << :first })
      refute(offer.take(:second) { seen << :second })
      assert_equal [:first, :first, [:first]], [waiting.wait, offer.taken, seen]
    end
  end

  def test_it_cannot_be_taken_when_its_time_is_over
    Gyre.run do
      offer = Gyre::Selection::Offer.new(self)
      assert_nil offer.wait(0.001)
      refute offer.take(:late)
    end
  end

  def test_of_many_threads_one_has_it
    200.times do
      offer = Gyre::Selection::Offer.new(self)
      assert_equal 1, Array.new(4) { |index| Thread.new { offer.take(index) } }.count(&:value)
      assert_equal offer.taken, offer.wait(0)
    end
  end
end
