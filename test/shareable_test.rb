# frozen_string_literal: true

# Constants that a Ractor may use: all, but for those with a reason. test/stress/ractors_test.rb
# runs code in Ractors.
require "test_helper"
require "gyre"
require "gyre/http"
require "gyre/sse"

class ShareableTest < Minitest::Test
  # Signals come to the main Ractor, and so does the command line. A log client hooks into fork and
  # exit, which are the process's. Subscribers and addresses are counted in the main Ractor.
  MAIN_RACTORS_OWN = /\AGyre::(?:Web|Log|CLI|Signals|Loop::Traps|Broadcast|Live|WebSocket::Addresses)\b/.freeze

  def test_a_ractor_may_use_every_constant_and_class
    name = Module.instance_method(:name) # a module may have a method of that name
    modules = ObjectSpace.each_object(Module).select do |each|
      name.bind_call(each).to_s.then { |text| text.match?(/\AGyre(?:::|\z)/) && !text.match?(MAIN_RACTORS_OWN) }
    end
    wrong = modules.flat_map do |owner|
      constants_of(owner).reject { |name| Ractor.shareable?(owner.const_get(name, false)) }.map { |name| "#{owner}::#{name}" } +
        owner.instance_variables.reject { |name| Ractor.shareable?(owner.instance_variable_get(name)) }.map { |name| "#{owner} #{name}" }
    end
    assert_empty wrong
  end

  private

  # Private ones too, which Ruby does not list: the names are taken from the files.
  def constants_of(owner)
    names.select { |name| owner.const_defined?(name, false) && owner.autoload?(name).nil? && owner != Object }
  end

  def names
    @names ||= Dir["#{LIB}/**/*.rb"].flat_map { |path| File.read(path).scan(/^ *([A-Z]\w*) = /) }.flatten.uniq
  end
end
