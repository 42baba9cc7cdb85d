# frozen_string_literal: true

# Limits reports of clients' faults per second, as a faulty client must not fill the disk; reports
# how many were left out. Connections call `add`, the hub's clock `tick`.

require "gyre/settings/units"

module Gyre
  module Log
    class Complaints
      # `limit`: lines a second. Writes nothing while `room` is false. Yields the line and "warn" or
      # "error".
      def initialize(limit, room: -> { true }, &write)
        @limit = limit
        @room = room
        @write = write
        @reported = @left_out = 0
        @second = nil
      end

      def add(peer, message, severity = "warn")
        if @reported < @limit && @room.call
          @reported += 1
          @write.call(severity, "#{peer}: #{message}")
        else
          @left_out += 1
        end
      end

      def tick(now_s)
        return if @second && now_s - @second < 1

        @second = now_s
        @reported = 0
        return unless @left_out.positive? && @room.call

        @write.call("warn", "#{Units.count(@left_out, "more complaint about clients was", "more complaints about clients were")} left out")
        @left_out = 0
      end
    end
  end
end
