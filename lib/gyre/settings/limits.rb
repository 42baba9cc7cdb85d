# frozen_string_literal: true

# The limits of a server: a frozen object with a reader for each row of a table. Makes
# Gyre::HTTP::Limits and Gyre::Log::Limits. It enforces nothing.

require "gyre/settings"

module Gyre
  # Tables of settings (settings.rb).
  class Settings
    # Gyre::HTTP::Limits.new(body_bytes_limit: "1M").body_bytes_limit # => 1048576
    class Limits
      # Returns a class with these rows as its TABLE.
      def self.of(*rows, foreign: {})
        Class.new(self) do
          const_set(:TABLE, Settings.new({ "Limits" => rows }, what: "limit", foreign: foreign))
          attr_reader(*rows.map(&:name))
        end
      end

      # Returns the given limits, or limits with the given values.
      def self.from(given)
        raise ArgumentError, "limits: must be a Hash or a #{name}, not #{Settings.shown(given)}" unless given.is_a?(Hash) || given.is_a?(self)

        given.is_a?(self) ? given : new(**given)
      end

      # Takes values by the names in TABLE; missing ones get their defaults.
      def initialize(**given)
        self.class::TABLE.complete(given).each { |name, value| instance_variable_set("@#{name}", value) }
        freeze
      end

      # A copy with these values.
      def with(**given) = self.class.new(**to_h, **given)

      # All names and values.
      def to_h = self.class::TABLE.to_h { |row| [row.name, public_send(row.name)] }
    end
  end
end
