# frozen_string_literal: true

# Changes text of a protocol at random, for the fuzzers that are written in Ruby. The same Random
# gives the same changes.

# Makes inputs out of inputs.
class Mutation
  # What HTTP/1 is made of, and what it trips over.
  WORDS = ["\r\n", "\n", "\r", " ", "\t", ":", ": ", ";", "=", "\"", "\\", ",", "?", "#", "*", "/", "//", "[", "]", "%",
    "%2", "@", "0", "1", "9", "f", "+", "-",
           "_", "\0", "\r\n ", "\r\n\r\n", "0\r\n", "GET ", "CONNECT ", "OPTIONS ", "POST / ", "HTTP/1.1", "HTTP/1.0",
           "HTTP/2.0", "http://", "https://a:1",
           "\r\nHost: a", "\r\nHost: ", "Connection: close\r\n", "Connection: upgrade\r\n", "Upgrade: a\r\n",
           "Content-Length: 5\r\n", "Content-Length: ",
           "Transfer-Encoding: chunked\r\n", "Transfer-Encoding: ", "chunked", "Expect: 100-continue\r\n", "keep-alive",
           "gzip, ", "4611686018427387904",
           "4000000000000000", "ffffffffffffffff", "[::1]", "::", "1.2.3.4", ";a=\"b\"",
           "\xff"].map { |word| word.b.freeze }.freeze

  def initialize(random, others, words = WORDS)
    @random = random
    @others = others
    @words = words
  end

  def call(bytes)
    bytes = bytes.dup
    (1 + @random.rand(6)).times { change(bytes) }
    bytes
  end

  private

  def change(bytes)
    at = @random.rand(bytes.bytesize + 1)
    length = 1 + @random.rand([4, 4, 64].sample(random: @random))
    word = @words.sample(random: @random)
    case @random.rand(8)
    when 0 then bytes.setbyte(at, @random.rand(256)) if at < bytes.bytesize
    when 1, 2 then bytes.insert(at, word)
    when 3 then bytes[at, word.bytesize] = word
    when 4 then bytes[at, length] = "".b
    when 5 then bytes.insert(@random.rand(bytes.bytesize + 1), bytes.byteslice(at, length))
    when 6 then bytes.insert(at, piece(length))
    else bytes.insert(at, @random.rand(256).chr)
    end
  end

  def piece(length)
    other = @others.sample(random: @random)
    other.byteslice(@random.rand(other.bytesize + 1), length)
  end
end
