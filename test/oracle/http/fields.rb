# frozen_string_literal: true

# Field lines, strict after RFC 9112, section 5: name ":" OWS value OWS CRLF. The header lines of a
# request and the trailer lines of a chunked body are the same to it. Used by Parser and Trailers;
# twin of ext/gyre/http/h1/fields.c.
#
#   field ─► name ─► value_start ─► value ─► value_lf ─► field …
#     └─ CR ─► end_lf ─► done
#
# Each phase looks at a byte once. Where the input ends, the phase and the position are kept.

require "gyre/errors"

module HTTPOracle
  # A section of field lines in the making.
  class Fields
    NAME_BYTES_LIMIT = 1024
    # What is not allowed in a name, around a value and in a value.
    NO_TOKEN = /[^!#$%&'*+\-.^_`|~0-9A-Za-z]/n
    NO_BLANK = /[^ \t]/n
    NO_VALUE = /[^\t\x20-\x7e\x80-\xff]/n
    private_constant :NO_BLANK, :NO_VALUE
    CR = 0x0d
    LF = 0x0a
    COLON = 0x3a

    # Returns the complete lines so far: name as it was sent, value without blanks around it.
    attr_reader :pairs
    # Returns the first byte that was not looked at yet.
    attr_reader :position

    def initialize(start, bytes_limit, count_limit, meaning)
      @section = @position = @token = start
      @bytes_limit = bytes_limit
      @count_limit = count_limit
      @meaning = meaning
      @pairs = []
      @phase = :field
    end

    # Reads on.
    def read(bytes)
      limited = bytes.bytesize - @section >= @bytes_limit
      stop = limited ? @section + @bytes_limit : bytes.bytesize
      until @phase == :done
        next if step(bytes, stop)

        refuse(431, "header lines that are too long in all") if limited
        return false
      end
      true
    end

    private

    # One phase. False when it needs more than there is before stop.
    def step(bytes, stop)
      case @phase
      when :field then start_field(bytes, stop)
      when :name then read_name(bytes, stop)
      when :value_start then read_value_start(bytes, stop)
      when :value then read_value(bytes, stop)
      when :value_lf then read_line_feed(bytes, stop) && finish_field
      else read_line_feed(bytes, stop) && (@phase = :done)
      end
    end

    def start_field(bytes, stop)
      return false if @position == stop

      case bytes.getbyte(@position)
      when CR
        @position += 1
        return @phase = :end_lf
      when 0x20, 0x09
        refuse(400, @pairs.empty? ? "white space before the first header line" : "a folded header line")
      end
      refuse(431, "too many header lines") if @pairs.size >= @count_limit
      @token = @position
      @phase = :name
    end

    def read_name(bytes, stop)
      stop_of_name = [stop, @token + NAME_BYTES_LIMIT + 1].min
      @position = search(bytes, NO_TOKEN, stop_of_name)
      refuse(431, "a header's name that is too long") if @position - @token > NAME_BYTES_LIMIT
      return false if @position == stop

      byte = bytes.getbyte(@position)
      refuse_name(byte) if byte != COLON || @position == @token
      @name = bytes.byteslice(@token, @position - @token)
      @position += 1
      @phase = :value_start
    end

    def read_value_start(bytes, stop)
      @position = search(bytes, NO_BLANK, stop)
      return false if @position == stop

      @token = @position
      @phase = :value
    end

    def read_value(bytes, stop)
      @position = search(bytes, NO_VALUE, stop)
      return false if @position == stop

      refuse_value(bytes.getbyte(@position)) if bytes.getbyte(@position) != CR
      @value = bytes.byteslice(@token, @position - @token).rstrip # of blanks: nothing else that it strips can be there
      @position += 1
      @phase = :value_lf
    end

    def read_line_feed(bytes, stop)
      return false if @position == stop

      refuse(400, "a carriage return without a line feed after it") if bytes.getbyte(@position) != LF
      @position += 1
    end

    def finish_field
      @pairs << [@name, @value] unless @meaning.call(@name, @value) == :drop
      @phase = :field
    end

    # Where the pattern is found first, at most stop.
    def search(bytes, pattern, stop)
      found = bytes.index(pattern, @position)
      found && found < stop ? found : stop
    end

    def refuse_name(byte)
      case byte
      when 0x20, 0x09 then refuse(400, "white space between a header's name and its colon")
      when CR, LF then refuse(400, "a header line without a colon")
      when COLON then refuse(400, "a header line without a name")
      else refuse(400, "a byte in a header's name that is not allowed there")
      end
    end

    def refuse_value(byte)
      refuse(400, byte == LF ? "a line feed without a carriage return before it" : "a control byte in a header's value")
    end

    def refuse(status, reason)
      raise Gyre::ProtocolError.new(reason, status)
    end
  end
end
