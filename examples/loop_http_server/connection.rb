# frozen_string_literal: true

# A client of the loop_http_server examples: reads available bytes and answers each request with a
# whole head. It has no loop and never waits; the examples differ in how they call it.

# One keep-alive connection.
class Connection
  LIMIT_BYTES = 16_384
  BODY = "Hello, world!\n"
  RESPONSE = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: #{BODY.bytesize}\r\n\r\n#{BODY}".freeze

  attr_reader :io

  def initialize(io)
    @io = io
    @input = String.new
    @output = String.new
  end

  # Does one step. Returns what must happen before the next one: :read or :write; :close at the end.
  def step
    receive or return :close
    answer
    send_output ? :read : :write
  rescue SystemCallError, IOError
    :close
  end

  private

  # Returns false at the end.
  def receive
    while (bytes = @io.read_nonblock(LIMIT_BYTES, exception: false)).is_a?(String)
      @input << bytes
      break if bytes.bytesize < LIMIT_BYTES
    end
    !bytes.nil? && @input.bytesize <= LIMIT_BYTES
  end

  # An empty line ends a request without a body; several may have come at once.
  def answer
    while (head_end = @input.index("\r\n\r\n"))
      @input.slice!(0, head_end + 4)
      @output << RESPONSE
    end
  end

  # Returns whether all was sent.
  def send_output
    until @output.empty?
      written = @io.write_nonblock(@output, exception: false)
      return false if written == :wait_writable

      @output.slice!(0, written)
    end
    true
  end
end
