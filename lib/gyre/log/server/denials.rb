# frozen_string_literal: true

# Delays responses to wrong keys, counted by address, so that guessing is cheap for the server and
# fills no log. Called by Gyre::Log::Connection. Right keys never count, as they may share the
# address.

require "ipaddr"

module Gyre
  module Log
    class Denials
      FREE = 10
      WITHIN_S = 60
      # Shorter than the clients' time limit for a response.
      DELAY_S = 2.0
      ADDRESSES_LIMIT = 1000
      Count = Struct.new(:since_s, :number)
      private_constant :Count

      def initialize(delay_s: DELAY_S)
        @delay_s = delay_s
        @counts = {} # oldest first
      end

      # Returns the delay in seconds, and a report (nil if already made).
      def add(host, now_s)
        number = count(network(host.to_s), now_s).number += 1
        return [0, "the key is wrong"] if number <= FREE

        [@delay_s, ("the key is wrong, #{number} times within #{WITHIN_S} s: further ones are answered late and not reported" if number == FREE + 1)]
      end

      def size = @counts.size

      private

      def count(network, now_s)
        former = @counts.delete(network)
        former = nil if former && now_s - former.since_s >= WITHIN_S
        @counts.shift if @counts.size >= ADDRESSES_LIMIT
        @counts[network] = former || Count.new(now_s, 0)
      end

      # Any machine may use all addresses of its IPv6 network (RFC 4291, section 2.5.4).
      def network(host)
        host.include?(":") ? IPAddr.new(host[/\A[^%]*/]).mask(64).to_s : host
      rescue IPAddr::Error
        host
      end
    end
  end
end
