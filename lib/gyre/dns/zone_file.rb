# frozen_string_literal: true

# Reads a zone file (RFC 1035, section 5) into a Zone, or raises with the first mistake's line.
# Called by the server and `gyre dns`.
require "strscan"
require "gyre/dns/zone_data"

module Gyre
  module DNS
    # Records in memory; the extension defines its methods.
    class Zone
      # @param origin [String] such as "example.org"
      # @param path [String]
      # @return [Zone] complete
      # @raise [ZoneError, SystemCallError]
      def self.load(origin, path) = parse(origin, File.binread(path), path)

      # @param origin [String]
      # @param text [String] of a zone file
      # @param path [String] for messages
      # @return [Zone] complete
      # @raise [ZoneError]
      def self.parse(origin, text, path = "zone") = ZoneFile.new(origin, text, path).zone

      # @return [String]
      def inspect = "#<#{self.class} #{origin}>"
    end

    # A mistake in a zone file; the message begins with file and line.
    class ZoneError < ArgumentError; end

    # Reads a zone file.
    # @api private
    class ZoneFile
      WORD = /(?:[^\s()";\\]|\\\d{3}|\\[^\d\n])+/n.freeze
      QUOTED = /"((?:[^"\\\n]|\\\d{3}|\\[^\d\n])*)"/n.freeze
      PAUSE_LINES, DEPTH_LIMIT = 16, 8
      private_constant :WORD, :QUOTED, :PAUSE_LINES, :DEPTH_LIMIT

      # An included file adds to the zone of its includer.
      def initialize(origin, text, path, zone: Zone.new(origin), ttl: nil, depth: 0)
        @scanner = StringScanner.new(text.b)
        @path = path
        @zone = zone
        @origin = origin.end_with?(".") ? origin : "#{origin}."
        @ttl = ttl
        @depth = depth
        @line = 1
        @owner = @last_ttl = nil
      end

      # @return [Zone]
      def zone
        read
        fault(@line) { @zone.finish }
      end

      # Adds the records.
      def read
        until @scanner.eos?
          line = @line
          fresh = !@scanner.match?(/[ \t]/)
          words = entry
          Thread.pass if (line % PAUSE_LINES).zero? # a loop may serve meanwhile
          fault(line) { take(words, fresh) } unless words.empty?
        end
      end

      private

      def fault(line)
        yield
      rescue ArgumentError, Resolv::DNS::DecodeError => error
        raise ZoneError, "#{@path}:#{line}: #{error.message}"
      end

      # Returns words up to the line's end, or the end of parentheses.
      def entry
        words, depth, line = [], 0, @line
        until @scanner.eos?
          @scanner.skip(/[ \t\r\f]+|;[^\n]*/n)
          if @scanner.skip(/\n/)
            @line += 1
            return words if depth.zero?
          elsif @scanner.skip(/\(/) then depth += 1
          elsif @scanner.skip(/\)/) then depth -= 1
          elsif @scanner.skip(QUOTED) then words << @scanner[1]
          elsif (word = @scanner.scan(WORD)) then words << word
          elsif !@scanner.eos? && !@scanner.match?(/[ \t\r\f;]/n)
            fault(@line) { raise ArgumentError, "#{@scanner.peek(1).inspect} does not belong here, or a quote is not closed" }
          end
          fault(@line) { raise ArgumentError, "a parenthesis closes that was not opened" } if depth.negative?
        end
        fault(line) { raise ArgumentError, "a parenthesis is not closed" } if depth.positive?
        words
      end

      def take(words, fresh)
        return directive(words) if fresh && words.first.start_with?("$")

        @owner = ZoneData.absolute(words.shift, @origin) if fresh
        raise ArgumentError, "the first record has no name" unless @owner

        ttl, type = ttl_class_type(words)
        @last_ttl = ttl || @ttl || @last_ttl || raise(ArgumentError, "the record has no TTL, and there is no $TTL before")
        @zone.add(@owner, type, @last_ttl, ZoneData.parse(type, words, @origin))
      end

      def directive(words)
        name, value, origin = words
        raise ArgumentError, "#{name} needs one word" unless words.size == 2 || (words.size == 3 && name.casecmp?("$INCLUDE"))

        case name.upcase
        when "$ORIGIN" then @origin = absolute_origin(value)
        when "$TTL" then @ttl = ZoneData.seconds(value)
        when "$INCLUDE" then include_file(File.expand_path(value, File.dirname(@path)), origin ? absolute_origin(origin) : @origin)
        else raise ArgumentError, "#{name} is not known; use $ORIGIN, $TTL or $INCLUDE"
        end
      end

      def absolute_origin(name) = ZoneData.absolute(name, @origin).tap { |origin| Wire.name(origin) }

      def include_file(path, origin)
        raise ArgumentError, "more than #{DEPTH_LIMIT} files include each other" if @depth == DEPTH_LIMIT

        ZoneFile.new(origin, File.binread(path), path, zone: @zone, ttl: @ttl, depth: @depth + 1).read
      rescue SystemCallError => error
        raise ArgumentError, error.message
      end

      # TTL and class are optional, in either order.
      def ttl_class_type(words)
        ttl = nil
        until (word = words.shift.to_s).empty?
          if word.match?(/\A\d/) && ttl.nil? then ttl = ZoneData.seconds(word)
          elsif DNS::CLASSES.key?(word.upcase)
            raise ArgumentError, "the class is #{word}; zones have class IN only" unless word.casecmp?("IN")
          else
            return ttl, DNS.type_number(word)
          end
        end
        raise ArgumentError, "the record has no type"
      end
    end
  end
end
