# frozen_string_literal: true

# Objects that may be collected while they are members. Used by the HTTP client and server.

module Gyre
  # @api private
  class WeakSet
    include Enumerable

    # Ruby 3.1 gives dead objects by ObjectSpace::WeakMap#keys and #each, and by #values unless each
    # object is its own key.
    def initialize(objects = [])
      @map = ObjectSpace::WeakMap.new
      objects.each { |object| add(object) }
    end

    def add(object) = @map[object] = object

    # Before Ruby 3.3 a WeakMap has no #delete: the object keeps its place.
    if ObjectSpace::WeakMap.method_defined?(:delete)
      def delete(object) = @map.delete(object)
    else
      def delete(object) = @map[object] = false
    end

    # Number of members; before Ruby 3.3 also of deleted objects that live.
    def size = @map.size

    def each(&block) = @map.values.each { |object| block.call(object) if object }
  end
end
