# frozen_string_literal: true

# The Memcache protocol by the bytes that it sends and gets; with a memcached, in a reactor's test.
require "test_helper"
require "gyre/event_machine"

module EventMachineTests
  class MemcacheTest < Minitest::Test
    class Handler
      include Gyre::EventMachine::Protocols::Memcache

      attr_reader :sent

      def initialize
        @sent = String.new
        connection_completed
      end

      def send_data(data)
        @sent << data
      end
    end

    def setup
      @client = Handler.new
      @got = []
    end

    def test_commands_without_a_block_ask_for_no_reply
      @client.set("a b", 1)
      @client.del("a")
      assert_equal "set a_b 0 0 1 noreply\r\n1\r\ndelete a 0 noreply\r\n", @client.sent
    end

    def test_replies_arrive_in_the_order_of_the_commands_however_they_are_split
      replies = "VALUE a 0 3\r\nx\r\n\r\nEND\r\nSTORED\r\nEND\r\nVALUE c 0 0\r\n\r\nVALUE a 0 1\r\n1\r\nEND\r\nNOT_FOUND\r\n" \
                "SERVER_ERROR too large\r\nDELETED\r\nEND\r\n"
      expected = ["x\r\n", true, nil, ["1", nil, ""], false, false, true, { a: nil }]
      [[replies], replies.chars, *(1...replies.size).map { |at| [replies[0, at], replies[at..]] }].each do |pieces|
        ask_for_everything
        pieces.each { |piece| @client.receive_data(piece.b) }
        assert_equal expected, @got
        @got.clear
      end
    end

    def test_an_unknown_answer_is_an_error
      assert_raises(Handler::ParserError) { @client.receive_data("WHAT?\r\n") }
    end

    private

    def ask_for_everything
      note = ->(value) { @got << value }
      @client.get("a", &note)
      @client.set("b", "2", &note)
      @client.get("b", &note)
      @client.get("a", "b", "c") { |*values| @got << values }
      @client.delete("d", &note)
      @client.set("e", "5", &note)
      @client.delete("f", &note)
      @client.get_hash(:a, &note)
    end
  end
end
