# frozen_string_literal: true

# The end of a timeout on the portable engine; what timeouts do is in
# test/contracts/scheduler/timeouts.rb.
require "test_helper"
require "gyre/scheduler"

class PortableExpiryTest < Minitest::Test
  # The loop calls a timer again when an exception left its call.
  def test_a_timeout_is_reported_though_an_exception_for_the_thread_came_while_it_was
    told = []
    fibers = Object.new
    fibers.define_singleton_method(:interrupt) { |_fiber, error| (told << error).one? && raise(Interrupt) }
    expiry = Gyre::Scheduler::Portable::Expiry.new(fibers, Fiber.current, [IOError, "late"])
    assert_raises(Interrupt) { expiry.call }
    2.times { expiry.call }
    assert_equal %w[late late], told.map(&:message)
    assert_same(*told)
  end
end
