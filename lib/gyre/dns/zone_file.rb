# frozen_string_literal: true

# Reads a zone file (RFC 1035, section 5) into a Zone. Raises ZoneError with the line of the first
# mistake. Called by the server and `gyre dns`.
require "strscan"
require "gyre/dns/message"

module Gyre
  module DNS
    # Records in memory. The extension defines the other methods.
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

    # @api private
    class ZoneFile
      # A quoted part may follow a "=" (RFC 9460).
      WORD = /(?:[^\s()";\\]|\\\d{3}|\\[^\d\n]|(?<==)"(?:[^"\\\n]|\\\d{3}|\\[^\d\n])*")+/n.freeze
      QUOTED = /"((?:[^"\\\n]|\\\d{3}|\\[^\d\n])*)"/n.freeze
      PAUSE_LINES, DEPTH_LIMIT = 16, 8
      private_constant :WORD, :QUOTED, :PAUSE_LINES, :DEPTH_LIMIT

      # `zone`: an included file adds its records to the zone of the including file.
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

      def read
        until @scanner.eos?
          line = @line
          fresh = !@scanner.match?(/[ \t]/)
          words = entry
          Thread.pass if (line % PAUSE_LINES).zero? # another thread's loop may serve meanwhile
          fault(line) { take(words, fresh) } unless words.empty?
        end
      end

      private

      def fault(line)
        yield
      rescue ArgumentError, Resolv::DNS::DecodeError => error
        raise ZoneError, "#{@path}:#{line}: #{error.message}"
      end

      # Returns the words of an entry, which ends with its line unless parentheses are open.
      def entry
        words, depth, line = [], 0, @line
        until @scanner.eos?
          @scanner.skip(/[ \t\r\f]+|;[^\n]*/n)
          if @scanner.skip(/\n/)
            @line += 1
            return words if depth.zero?
          elsif @scanner.skip(/\(/) then depth += 1
          elsif @scanner.skip(/\)/) then depth -= 1
          elsif @scanner.skip(QUOTED) then words << (@scanner[1] == "\\#" ? "#" : @scanner[1]) # a text, not data in hex
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
        data = ZoneData.parse(type, words, @origin)
        @ttl = data.unpack1("@#{data.bytesize - 4}N") if type == TYPES["SOA"] && [ttl, @ttl, @last_ttl].none? # its minimum, as in BIND
        @last_ttl = ttl || @ttl || @last_ttl || raise(ArgumentError, "the record has no TTL, and there is no $TTL or SOA before")
        @zone.add(@owner, type, @last_ttl, data)
      end

      def directive(words)
        name, value, origin = words
        limit = { "$ORIGIN" => 2, "$TTL" => 2, "$INCLUDE" => 3 }[name.upcase]
        raise ArgumentError, "#{name} is not known; use $ORIGIN, $TTL or $INCLUDE" unless limit
        raise ArgumentError, "#{name} needs one word" unless words.size.between?(2, limit)

        case name.upcase
        when "$ORIGIN" then @origin = absolute_origin(value)
        when "$TTL" then @ttl = ZoneData.seconds(value)
        else include_file(File.expand_path(value, File.dirname(@path)), origin ? absolute_origin(origin) : @origin)
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
          elsif DNS::CLASSES.key?(word.upcase) || word.match?(/\ACLASS\d+\z/i)
            raise ArgumentError, "the class is #{word}; zones have class IN only" unless DNS.class_number(word) == 1
          else
            return ttl, DNS.type_number(word)
          end
        end
        raise ArgumentError, "the record has no type"
      end
    end

    # Parses the data of records in zone files (RFC 1035, 3597, 4034, and the RFC of each type).
    #
    # @api private
    module ZoneData
      NAME, TEXTS, NUMBERS = [:name], [:texts], %i[u16 u8 u8].freeze
      # Fields of each type. The last field may take all remaining words.
      FIELDS = {
        "A" => [:ip4], "AAAA" => [:ip6], "NS" => NAME, "CNAME" => NAME, "PTR" => NAME, "MX" => %i[u16 name],
        "SOA" => %i[name name u32 time time time time], "TXT" => TEXTS, "SPF" => TEXTS, "HINFO" => %i[text text],
        "SRV" => %i[u16 u16 u16 name], "NAPTR" => %i[u16 u16 text text text name], "CAA" => %i[u8 text bytes],
        "DS" => [*NUMBERS, :hex], "CDS" => [*NUMBERS, :hex], "DNSKEY" => [*NUMBERS, :base64], "CDNSKEY" => [*NUMBERS, :base64],
        "HTTPS" => %i[u16 name parameters], "SVCB" => %i[u16 name parameters], "URI" => %i[u16 u16 bytes], "LOC" => [:location],
        "TLSA" => %i[u8 u8 u8 hex], "SSHFP" => %i[u8 u8 hex], "RRSIG" => %i[type u8 u8 u32 date date u16 name base64], "NSEC" => %i[name types]
      }.freeze
      SIZES = { u8: [255, "C"], u16: [65_535, "n"], u32: [4_294_967_295, "N"] }.freeze
      UNITS = { "s" => 1, "m" => 60, "h" => 3600, "d" => 86_400, "w" => 604_800 }.freeze
      REST = %i[texts hex base64 types parameters location].freeze
      # Parameters of HTTPS and SVCB records, in the order of their numbers (RFC 9460, 9461, 9540).
      PARAMETERS = %w[mandatory alpn no-default-alpn port ipv4hint ech ipv6hint dohpath ohttp].freeze
      angle, metres = '(\d+)(?:\s(\d+))?(?:\s(\d+(?:\.\d{1,3})?))?', '(\d+(?:\.\d\d?)?)m?'
      # Latitude, longitude, altitude; size and precisions (RFC 1876, section 3).
      LOCATION = /\A#{angle}\s([NS])\s#{angle}\s([EW])\s(-?\d+(?:\.\d\d?)?)m?(?:\s#{metres})?(?:\s#{metres})?(?:\s#{metres})?\z/i.freeze
      private_constant :NAME, :TEXTS, :NUMBERS, :SIZES, :UNITS, :REST, :LOCATION

      class << self
        # Returns a record's data. `words` are escaped as in the file. `origin` is appended to
        # relative names. Raises ArgumentError.
        def parse(type, words, origin)
          return unknown(words) if words.first == "\\#"

          fields = FIELDS[DNS.type_name(type)] or raise ArgumentError, "the data of #{DNS.type_name(type)} must be in the form \\# LENGTH HEX"
          words = words.dup
          data = fields.map { |field| read(field, REST.include?(field) ? words.slice!(0..) : words.slice!(0, 1), origin) }.join
          words.empty? ? data : raise(ArgumentError, "#{words.first.inspect} is one word too many")
        end

        def absolute(name, origin)
          return origin if name == "@"
          return name if name.match?(/(?<!\\)(?:\\\\)*\.\z/)

          origin == "." ? "#{name}." : "#{name}.#{origin}"
        end

        # Parses a TTL such as 3600 or 1h30m.
        def seconds(word)
          raise ArgumentError, "#{word.inspect} is not a time" unless word.match?(/\A(?:\d+|(?:\d+[smhdw])+)\z/i)

          total = word.scan(/(\d+)([a-z]?)/i).sum { |number, unit| number.to_i * UNITS.fetch(unit.downcase, 1) }
          total <= 2_147_483_647 ? total : raise(ArgumentError, "#{word} is longer than a TTL can be")
        end

        private

        def unknown(words)
          data = hex(words.drop(2).join)
          data.bytesize == Integer(words[1].to_s, 10, exception: false) ? data : raise(ArgumentError, "\\# needs a length and as many bytes in hex")
        end

        def read(field, words, origin)
          raise ArgumentError, "a field is missing: #{field}" if words.empty? && field != :types && field != :parameters

          word = words.first
          case field
          when :name then Wire.name(absolute(word, origin))
          when :ip4 then Resolv::IPv4.create(word).address
          when :ip6 then Resolv::IPv6.create(word).address
          when :u8, :u16, :u32 then [integer(word, SIZES.dig(field, 0))].pack(SIZES.dig(field, 1))
          when :time then [seconds(word)].pack("N")
          when :texts then words.map { |each| text(each) }.join
          when :bytes then unescape(word)
          when :type then [DNS.type_number(word)].pack("n")
          when :date then [date(word)].pack("N")
          when :hex then hex(words.join)
          when :base64 then words.join.unpack1("m0")
          when :types then bitmap(words.map { |each| DNS.type_number(each) })
          when :text then text(word)
          when :parameters then parameters(words)
          when :location then location(words.join(" "))
          end
        end

        def parameters(words)
          found = words.map { |word| word.split("=", 2) }.map { |key, value| [parameter(key), value&.sub(/\A"(.*)"\z/m, '\1')] }
          raise ArgumentError, "a parameter is given twice" if found.uniq(&:first).size < found.size

          found.sort.map { |key, value| value(key, value).then { |data| [key, data.bytesize].pack("nn") + data } }.join
        end

        def parameter(key)
          PARAMETERS.index(key.downcase) || key[/\Akey(\d{1,5})\z/i, 1]&.to_i&.then { |number| number if number < 65_536 } or
            raise ArgumentError, "#{key.inspect} is not a parameter of a service"
        end

        def value(key, value)
          items = value.to_s.split(/(?<!\\),/)
          case PARAMETERS[key]
          when "mandatory" then items.map { |item| parameter(item) }.sort.pack("n*")
          when "alpn" then items.map { |item| text(unescape(item)) }.join # escaped twice (RFC 9460, appendix A.1)
          when "port" then [integer(value, SIZES.dig(:u16, 0))].pack("n")
          when "ipv4hint" then items.map { |item| Resolv::IPv4.create(item).address }.join
          when "ipv6hint" then items.map { |item| Resolv::IPv6.create(item).address }.join
          when "ech" then value.to_s.unpack1("m0")
          else unescape(value.to_s)
          end
        end

        def location(text)
          found = LOCATION.match(text) or raise ArgumentError, "#{text.inspect} is not a location, such as 52 22 23 N 4 53 32 E -2m"
          latitude, longitude = [[found[1..3], found[4], "S"], [found[5..7], found[8], "W"]].map do |parts, side, minus|
            thousandths = parts.zip([3_600_000, 60_000, 1000]).sum { |part, factor| (part.to_r * factor).to_i }
            (1 << 31) + (side.casecmp?(minus) ? -thousandths : thousandths)
          end
          sizes = found[10..12].zip(%w[1 10000 10]).map { |given, usual| precision(((given || usual).to_r * 100).to_i) }
          [0, *sizes, latitude, longitude, (found[9].to_r * 100).to_i + 10_000_000].pack("C4N3")
        end

        # A digit and a power of ten of centimetres.
        def precision(number)
          power = [number.to_s.size - 1, 0].max
          (number / 10**power) << 4 | power
        end

        def integer(word, limit)
          number = Integer(word, 10, exception: false)
          number&.between?(0, limit) ? number : raise(ArgumentError, "#{word.inspect} is not a number up to #{limit}")
        end

        def text(word)
          bytes = unescape(word)
          bytes.bytesize <= 255 ? [bytes.bytesize].pack("C") + bytes : raise(ArgumentError, "a text is longer than 255 bytes")
        end

        def unescape(word)
          word.b.gsub(/\\(?:(\d{3})|(.))/mn) do
            next $2 unless $1
            raise ArgumentError, "#{$&} is not a byte" if $1.to_i > 255

            $1.to_i.chr.b
          end
        end

        def hex(word)
          word.match?(/\A(?:\h\h)*\z/) ? [word].pack("H*") : raise(ArgumentError, "#{word.inspect} is not hexadecimal")
        end

        # Parses seconds since 1970, or YYYYMMDDHHmmSS (RFC 4034, section 3.2).
        def date(word)
          limit = SIZES.dig(:u32, 0)
          word.match?(/\A\d{14}\z/) ? Time.utc(*word.unpack("a4a2a2a2a2a2")).to_i & limit : integer(word, limit)
        end

        # RFC 4034, section 4.1.2.
        def bitmap(types)
          types.uniq.sort.group_by { |type| type >> 8 }.map do |window, members|
            bytes = Array.new((members.max & 255) / 8 + 1, 0)
            members.each { |type| bytes[(type & 255) / 8] |= 0x80 >> (type & 7) }
            [window, bytes.size, *bytes].pack("C*")
          end.join
        end
      end
    end
  end
end
