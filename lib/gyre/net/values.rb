# frozen_string_literal: true

# The types of settings that flags, configurations and servers share: text or a value in, the value
# as a server takes it out. Called by Gyre::Web::Settings, Gyre::CLI::Log::Configuration and the log
# server. A wrong value is an ArgumentError with what is expected; nothing is opened.

require "gyre/net/endpoint"
require "gyre/net/units"

module Gyre
  # A function for each type.
  module Values
    module_function

    # @param type [Symbol, Array<String>] one of the functions below, or the words that it may be
    # @param value [Object]
    # @param name [Symbol, String, nil] what the message calls it
    # @return [Object] the value, converted
    # @raise [ArgumentError] with what is expected
    def check(type, value, name: nil)
      type.is_a?(Array) ? choice(value, type) : public_send(type, value)
    rescue ArgumentError => error
      raise name ? ArgumentError.new("#{name}: #{error.message}") : error
    end

    # @return [Integer]
    def port(value)
      number = Units.number(value)
      number.is_a?(Integer) && number.between?(0, 65_535) ? number : expect("a port, 1 to 65535 (0 takes a free one)", value)
    end

    # @return [String]
    def text(value) = value.is_a?(String) && !value.empty? ? value : expect("text", value)

    # @return [Boolean]
    def flag(value)
      [true, false].include?(value) ? value : expect("true or false", value)
    end

    # @return [Integer, Float] 0 or more
    def seconds(value)
      Units.seconds(value) || expect("a number of seconds, 0 or more", value)
    end

    # @return [Integer, Float] more than 0
    def span(value)
      Units.seconds(value)&.nonzero? || expect("minute, hour, day, week, some of them (2 days) or a number of seconds", value)
    end

    # @return [Integer]
    def bytes(value)
      Units.bytes(value)&.nonzero? || expect("a number of bytes like 500, 64k or 10M", value)
    end

    # @return [Integer]
    def count(value)
      number = Units.number(value)
      number.is_a?(Integer) && number.positive? ? number : expect("a whole number, 1 or more", value)
    end

    # @return [Integer, String] 0 or more, or "auto"
    def processes(value)
      return "auto" if value.to_s == "auto"

      number = Units.number(value)
      number.is_a?(Integer) && number >= 0 ? number : expect("a whole number, 0 or more, or auto", value)
    end

    # @param names [Array<String>]
    # @return [String] one of them
    def choice(value, names)
      names.find { |name| name == value.to_s.downcase } || expect(names.join(" or "), value)
    end

    # @return [String, Integer] an address, as {Gyre::Endpoint.parse} reads it
    def address(value) = Endpoint.parse(value) && value

    # @param value [Object]
    # @return [String] it, for a message: passwords in addresses are left out, long texts are
    #   truncated
    def shown(value)
      value.inspect.gsub(%r{(://)[^/@\s"]*@}, "\\1…@").then { |text| text.size > 80 ? "#{text[0, 79]}…" : text }
    end

    # @param name [Symbol, String, nil] what the message calls it
    # @raise [ArgumentError]
    def expect(what, value = nil, name: nil)
      raise ArgumentError, "#{"#{name}: " if name}must be #{what}#{", not #{shown(value)}" unless value.nil?}"
    end
  end
end
