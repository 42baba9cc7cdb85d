# frozen_string_literal: true

# LineText2, the protocols on it, and BufferedTokenizer: whole, in two pieces, and byte by byte.
require "test_helper"
require "gyre/event_machine"

module EventMachineTests
  class LineText2Test < Minitest::Test
    class Handler
      include Gyre::EventMachine::Protocols::LineText2

      attr_reader :got

      def initialize(&on_line)
        @got = []
        @on_line = on_line
      end

      def receive_line(line)
        @got << line
        instance_exec(line, &@on_line) if @on_line
      end

      def receive_binary_data(data)
        @got << [data]
      end
    end

    def test_a_text_of_no_bytes_calls_nothing
      handler = Handler.new { |line| set_text_mode(Integer(line)) }
      handler.receive_data("0\n2\nab1\n")
      assert_equal ["0", "2", ["ab"], "1"], handler.got
    end

    # In the processor's time: eight times the bytes take some eight times as long, not sixty-four.
    def test_a_long_line_costs_its_length
      once, eight_times = [1, 8].map do |megabytes|
        Array.new(3) do
          handler = Handler.new
          before = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)
          (megabytes * 256).times { handler.receive_data("x" * 4096) }
          handler.receive_data("\n")
          assert_equal megabytes * 1_048_576, handler.got.first.bytesize
          Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) - before
        end.min
      end
      assert_operator eight_times, :<, once * 32
    end

    class Stomp
      include Gyre::EventMachine::Protocols::Stomp

      attr_reader :got, :sent

      def initialize
        @got = []
        @sent = String.new
      end

      def receive_msg(message)
        @got << [message.command, message.header, message.body]
      end

      def send_data(data)
        @sent << data
      end
    end

    def test_lines_end_with_a_line_feed_with_or_without_a_carriage_return
      each_way("a\nb\r\n\n\r\ncd") { |got| assert_equal ["a", "b", "", ""], got }
    end

    def test_a_delimiter_of_several_characters_is_found_across_pieces
      each_way("Line012Line012Li", -> { Handler.new.tap { |handler| handler.set_delimiter("012") } }) do |got|
        assert_equal %w[Line Line], got
      end
    end

    def test_a_pattern_is_a_delimiter
      each_way("aXbYcX", -> { Handler.new.tap { |handler| handler.set_delimiter(/[XY]/) } }) { |got| assert_equal %w[a b c], got }
    end

    def test_text_of_a_size_stands_between_lines
      sized = -> { Handler.new { |line| set_text_mode(Integer(line)) } }
      each_way("3\nabc2\r\nde0\n1\nf", sized) do |got|
        assert_equal ["3", ["abc"], "2", ["de"], "0", "1", ["f"]], got # as in EventMachine, 0 stays in line mode
      end
    end

    def test_data_thrown_back_comes_as_lines
      handler = Handler.new { |line| set_line_mode("x\ny\n") if line == "again" }
      handler.receive_data("again\nlast\n")
      assert_equal %w[again x y last], handler.got
    end

    def test_the_rest_is_kept_when_a_callback_raises
      handler = Handler.new { |line| raise "stop" if line == "b" }
      assert_raises(RuntimeError) { handler.receive_data("a\nb\nc\nd") }
      handler.receive_data("\n")
      assert_equal %w[a b c d], handler.got
    end

    def test_text_that_ends_early_comes_at_the_end_of_the_connection
      handler = Handler.new
      handler.set_text_mode(10)
      handler.receive_data("half")
      handler.unbind
      assert_equal [["half"]], handler.got
    end

    def test_stomp_frames_have_bodies_of_a_length_or_up_to_a_zero_byte
      each_way("MESSAGE\na: b:c\ncontent-length: 3\n\nx\0y\0\nRECEIPT\n\nrest\0\nACK\n\n\0", -> { Stomp.new }) do |got|
        assert_equal [["MESSAGE", { "a" => "b:c", "content-length" => "3" }, "x\0y"], ["RECEIPT", {}, "rest"], ["ACK", {}, ""]], got
      end
    end

    def test_stomp_sends_the_length_of_the_body_in_bytes
      client = Stomp.new
      client.send("queue", "é")
      assert_equal "SEND\ndestination: queue\ncontent-length: 2\n\né\0\n", client.sent.force_encoding(Encoding::UTF_8)
    end

    def test_the_tokenizer_joins_pieces
      text = "one--two----three"
      tokens = lambda do |pieces|
        tokenizer = Gyre::EventMachine::BufferedTokenizer.new("--")
        pieces.flat_map { |piece| tokenizer.extract(piece) } << tokenizer.flush
      end
      assert_equal ["one", "two", "", "three"], tokens.call([text])
      assert_equal ["one", "two", "", "three"], tokens.call(text.chars)
    end

    private

    def each_way(bytes, fresh = -> { Handler.new })
      splits = (1...bytes.bytesize).map { |at| [bytes.byteslice(0, at), bytes.byteslice(at..)] }
      [[bytes], bytes.chars, *splits].each do |pieces|
        handler = fresh.call
        pieces.each { |piece| handler.receive_data(piece) }
        yield handler.got
      end
    end
  end
end
