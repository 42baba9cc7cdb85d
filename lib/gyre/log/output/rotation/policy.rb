# frozen_string_literal: true

# Settings of `rotate`: when a log file is replaced, and how many old files are kept.

require "gyre/settings"

module Gyre
  module Log
    class Rotation
      type = Gyre::Settings::Type
      row = Gyre::Settings.method(:row)
      compressions = { "gzip" => :gzip, "true" => :gzip, "none" => false, "false" => false }.freeze
      compress = type.new("NAME", "gzip or none", choice: true) { |value| compressions[value.to_s.downcase] }

      # `size` in bytes, `every` in seconds; at least one is required.
      Policy = Struct.new(:size, :every, :keep, :compress, keyword_init: true) { def self.parse(settings) = new(**self::SETTINGS.complete(settings)) }

      Policy::SETTINGS = Gyre::Settings.new({ nil => [
        row[:size, :bytes, "a file of this length is replaced by a new one, like 100M"],
        row[:every, :seconds, "a new file when a new minute, hour, day or week begins, or after these seconds"],
        row[:keep, :count, "old files that are kept", default: 30],
        row[:compress, compress, "old files", default: false]
      ] }, what: "key") { |values, faults| faults.add(nil, "needs size, every, or both") unless values.key?(:size) || values.key?(:every) }
    end
  end
end
