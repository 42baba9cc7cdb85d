# frozen_string_literal: true

require "test_helper"
require "gyre/weak_set"

class WeakSetTest < Minitest::Test
  # Its variables lie outside of the object, and are overwritten soon after its end.
  class Wide
    def initialize(value) = @a = @b = @c = @d = @e = @f = @g = value

    def values = [@a, @b, @c, @d, @e, @f, @g].uniq
  end

  def test_members_are_those_that_were_added_and_not_deleted
    one, two, three = Array.new(3) { |number| Wide.new(number) }
    set = Gyre::WeakSet.new([one, two])
    set.add(three)
    set.delete(two)
    assert_equal [one, three], set.sort_by { |object| object.values.first }
    assert_equal ObjectSpace::WeakMap.method_defined?(:delete) ? 2 : 3, set.size
  end

  # In a thread, because what is left on its stack keeps objects.
  def test_a_collected_object_is_never_a_member
    set = Gyre::WeakSet.new
    Thread.new do
      3_000.times do
        set.add(Wide.new(1))
        10.times { Wide.new(Object.new) }
        assert(set.all? { |object| object.values == [1] })
      end
    end.join
    GC.start
    assert_operator set.count, :<, 3_000
  end
end
