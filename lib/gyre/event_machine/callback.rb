# frozen_string_literal: true

# EventMachine.Callback, by which all methods of EventMachine take a callback.

module Gyre
  module EventMachine
    # Makes a callable of an object and a method name, a callable, or a block.
    # @param object [Object, #call, nil]
    # @param method [Symbol, nil]
    # @return [#call]
    # @raise [ArgumentError] without anything to call
    def self.Callback(object = nil, method = nil, &block) # rubocop:disable Naming/MethodName
      callable = object && method ? ->(*args) { object.public_send(method, *args) } : object || block
      return callable if callable.respond_to?(:call)

      raise ArgumentError, "no callback: give an object and a method name, an object that responds to call, or a block"
    end
  end
end
