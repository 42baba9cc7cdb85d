# frozen_string_literal: true

# Limits of a server or a client: a frozen object with a reader for each row of a table.

require "gyre/settings"

module Gyre
  # Tables of settings (settings.rb).
  class Settings
    # Gyre::HTTP::Limits.new(body_bytes_limit: "1M").body_bytes_limit # => 1048576
    class Limits
      # Returns a class for these rows.
      def self.of(*rows, foreign: {})
        Class.new(self) do
          const_set(:TABLE, Settings.new({ "Limits" => rows }, what: "limit", foreign: foreign))
          attr_reader(*rows.map(&:name))
        end
      end

      # Returns the given limits, or makes limits of a Hash.
      def self.from(given)
        raise ArgumentError, "limits: must be a Hash or a #{name}, not #{Settings.shown(given)}" unless given.is_a?(Hash) || given.is_a?(self)

        given.is_a?(self) ? given : new(**given)
      end

      # Takes values by name; other limits get their defaults.
      def initialize(**given)
        self.class::TABLE.complete(given).each { |name, value| instance_variable_set("@#{name}", value) }
        freeze
      end

      # Returns a copy with these values.
      def with(**given) = self.class.new(**to_h, **given)

      # Returns all values by name.
      def to_h = self.class::TABLE.to_h { |row| [row.name, public_send(row.name)] }
    end
  end
end
