# frozen_string_literal: true

# An exchange without a socket, for tests of what is above it: gives the envs that it was made with
# and notes what is written. No test itself.

require "gyre/http/exchange"

module GyreTest
  # Offers Gyre::HTTP::Exchange's primitives. What was called stands in {#calls}.
  class FakeExchange < Gyre::HTTP::Exchange
    attr_reader :calls, :body_bytes_sent
    attr_accessor :fast, :head_only, :expects_continue, :framing, :input

    def initialize(*envs)
      super()
      @envs = envs
      @calls = []
      @fast = @closed = @hijacked = @head_sent = false
      @body_bytes_sent = 0
      @framing = :as_asked
    end

    def next_request
      @head_sent = false
      @closed ? nil : @envs.shift&.merge!("rack.hijack" => self)
    end

    def write_response(status, headers, body)
      return true if @hijacked
      return false unless @fast && body.is_a?(Array)

      @head_sent = true
      note(:write_response, status, headers, body)
      true
    end

    def write_head(status, headers, framing)
      note(:write_head, status, headers, framing)
      @head_sent = true
      @framing == :as_asked ? framing : @framing
    end

    def write_body(string)
      note(:write_body, string)
      @body_bytes_sent += string.bytesize
      string.bytesize
    end

    def write_file(io, offset, length)
      note(:write_file, io.to_io.path, offset, length)
      length
    end

    def finish_body
      note(:finish_body)
    end

    def write_interim(status, headers)
      note(:write_interim, status, headers)
      true
    end

    def read_body(_max_bytes)
      @input&.shift&.dup # a new String each time, as the contract has it
    end

    def hijack
      note(:hijack)
      @hijacked = @closed = true
      @socket ||= StringIO.new(+"")
    end

    def close
      note(:close) unless @closed
      @closed = true
      nil
    end

    def reset
      note(:reset) unless @closed
      @closed = true
      nil
    end

    def client_gone
      @client_gone ||= Gyre::Promise.new
    end

    def hold_file = true

    def leave_place
      note(:leave_place)
    end
    alias open_ended leave_place

    # As after an error of the network.
    def break
      @closed = true
    end

    def closed?
      @closed
    end

    def hijacked?
      @hijacked
    end

    def head_sent?
      @head_sent
    end

    def head_only?
      @head_only ? true : false
    end

    def expects_continue?
      @expects_continue ? true : false
    end

    # Returns the names of {#calls}.
    def names
      @calls.map(&:first)
    end

    private

    def note(*call)
      @calls << call
      nil
    end
  end
end
