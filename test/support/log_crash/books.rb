# frozen_string_literal: true

# The crash test's messages and its bookkeeping: what a writer logs as its n-th message, and whether
# a server's log files hold what was acknowledged, once and in order. Used by GyreTest::LogCrash. It
# starts nothing, and has its own idea of how a line is escaped.

require "zlib"

module GyreTest
  module LogCrash
    # The n-th message of a writer, always the same. Their first two words distinguish them.
    module Message
      ODD = ["|info|", "\n2026/11/21 19:00:00|a|info|forged", "\r\n", "\\n \\\\ \\x00", "\0\x01\x7f\t", "Grüße, 日本語 🦀", "\xff\xfe".b, ":", ""].freeze
      LONG_BYTES = 100_000

      module_function

      def text(writer, number)
        draw = Zlib.crc32("#{writer} #{number}")
        "#{writer} #{number} ".b << body(draw, writer, number).b
      end

      # As it has to stand in a text log.
      def line(writer, number)
        text(writer, number).gsub(/[\x00-\x08\x0a-\x1f\x7f\\]/n) do |byte|
          { "\n" => "\\n", "\r" => "\\r", "\\" => "\\\\" }.fetch(byte) { format("\\x%02x", byte.ord) }
        end
      end

      def body(draw, writer, number)
        case draw % 400
        when 0 then draw.to_s * (writer.start_with?("old") ? 1 : LONG_BYTES / draw.to_s.bytesize) # a frame takes 8 KB
        when 1..20 then draw.to_s(36) * (draw % 700)
        when 21..90 then ODD[number % ODD.size]
        else draw.to_s(2)
        end
      end
    end

    # What was acknowledged to which client, held against what is in the files.
    class Books
      LINE = %r{\A\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\|[^|]*\|[^|]*\|((\S+) (\d+) .*)\n\z}mn.freeze
      # What a kill may leave of a line of the old wire before its message is known; the next server
      # ends it.
      TORN = %r{\A(?:[\d/: ]{0,19}|\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\|[^|]*(?:\|[^|]*(?:\|(?:o|ol|old\S*(?: \d*)?)?)?)?)\n\z}n.freeze
      SERVERS_OWN = %r{\A\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\|gyre\|}n.freeze

      attr_reader :faults
      attr_reader :stored

      def initialize
        @acknowledged = Hash.new(0)
        @logged = {}
        @found = Hash.new { |found, writer| found[writer] = [] }
        @faults = []
        @stored = 0
      end

      # The library has reported that all up to this writer's n-th message is acknowledged.
      def acknowledged(writer, number)
        @acknowledged[writer] = number if number > @acknowledged[writer]
      end

      # The writer closed its client in order after that many: the last one to come has to bring all
      # of them.
      def closed(writer, number)
        @logged[writer] = number
      end

      def promised
        @acknowledged.sum { |writer, number| [number, @logged.fetch(writer, 0)].max }
      end

      # Reads one log's files, the oldest first.
      def read(paths)
        paths.each do |path|
          io = File.open(path, "rb")
          io = Zlib::GzipReader.new(io) if path.end_with?(".gz")
          begin
            # The torn line stays without an end in a file that was renamed before the next server
            # came.
            io.each_line("\n") { |line| take("#{line.b.chomp("\n")}\n", path) }
          rescue Zlib::Error => error
            @faults << "#{path} is damaged: #{error.message}"
          ensure
            io.close
          end
        end
      end

      # Returns what is wrong, nothing when the promise was kept.
      def audit
        (@acknowledged.keys | @logged.keys | @found.keys).each { |writer| audit_writer(writer) }
        @faults
      end

      private

      def take(line, path)
        return if SERVERS_OWN.match?(line) || TORN.match?(line)

        match = LINE.match(line) or return @faults << "#{path} has a line that was never sent: #{shown(line)}"
        _, message, writer, number = *match
        number = number.to_i
        return if message != Message.line(writer, number) && differs(message, writer, number, "#{path}: #{shown(line)}")

        @found[writer] << number
        @stored += 1
      end

      # A line of the old wire may be torn by a kill; the next server ends it.
      def differs(message, writer, number, where)
        torn = writer.start_with?("old") && Message.line(writer, number).start_with?(message)
        @faults << "a message was changed, #{where}" unless torn
      end

      def audit_writer(writer)
        numbers = @found[writer]
        unless numbers.uniq.size == numbers.size
          @faults << "#{writer}: stored more than once: #{runs(numbers.tally.select { |_, times| times > 1 }.keys)}"
        end
        @faults << "#{writer}: out of order: #{numbers.each_cons(2).find { |one, next_one| next_one < one }.inspect}" unless numbers.sort == numbers
        promised = [@acknowledged[writer], @logged.fetch(writer, 0)].max
        # On the old wire what a crash takes with it is lost, but nothing comes twice or changed.
        return if promised.zero? && writer.start_with?("old")

        # A client's records are stored in their order, so there is never a hole before the last
        # one.
        lost = (1..[promised, numbers.max.to_i].max).to_a - numbers
        @faults << "#{writer}: lost: #{runs(lost)}; #{@acknowledged[writer]} were acknowledged, #{@logged.fetch(writer, "-")} logged" if lost.any?
      end

      def runs(numbers)
        numbers.sort.slice_when { |one, next_one| next_one != one + 1 }.first(5).map { |run| run.one? ? run[0] : "#{run[0]}-#{run[-1]}" }.join(", ")
      end

      def shown(line)
        line.bytesize > 160 ? "#{line.byteslice(0, 160).inspect}… (#{line.bytesize} bytes)" : line.inspect
      end
    end
  end
end
