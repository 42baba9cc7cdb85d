# frozen_string_literal: true

# Inputs of the log's ingest, good and broken: for the contract, for the plain C test, and for the
# fuzzers, which change them.

require_relative "../oracle/log/records"
require_relative "verdicts"

module LogCases
  Input = LogVerdicts::Input

  class << self
    private

    def frame(message, service: "web", severity: "info")
      Gyre::Log::Wire.frame(service, severity, message)
    end

    def record(sequence, message, service: "web", severity: "info", time_us: 1_795_288_799_999_999)
      Gyre::Log::Records.encode(seq: sequence, time_us: time_us, service: service, severity: severity, message: message)
    end

    # What ends in lines of every kind.
    def messages
      ["", "hello", "a:b:c", "two\nlines\r\n", "tab\tand \\ and | and \"quotes\"", "\0\x01\x1b[31m\x7f", "héllo \u{1f600}",
       "\xff\xfe broken \xc3", "\xed\xa0\x80\xf0\x9f\x98 \xe2\x82", "x" * 70, "#{"y" * 15}\n#{"z" * 17}"]
    end

    def frames
      good = messages.map { |message| frame(message) }
      [good.join, good.flat_map { |one| [one, one] }.join, good.first + good.last.chop, *good,
       frame("a", service: "quiet") + frame("b", service: "quiet", severity: "warn") + frame("c", service: "q|\n", severity: "\\|"),
       %w[a b c a].map { |service| frame("1", service: service) }.join, frame("", service: "", severity: ""),
       *["00000000", "00100010::", "00120013:::a", "+012+012", "GET / HTTP/1.1\r\n\r\n", "81928192:", "99999999", "00110011a::",
         "00110011:a:", "00120012:abc", "0012", "\0" * 20, "\xff" * 9].flat_map { |wrong| [wrong, good[1] + wrong.b + good[1]] }]
    end

    def records
      good = messages.each_with_index.map { |message, index| record(index + 1, message) }
      broken = good[1].dup.tap { |bytes| bytes.setbyte(20, 1) }
      [good.join, good.reverse.join, (good + good).join, good.first + good.last.chop,
       record(5, "a", service: "quiet") + record(6, "b", service: "quiet", severity: "warn"),
       record((1 << 64) - 1, "x", time_us: (1 << 64) - 1) + record(1, "y"), record(1, "z", time_us: 0, service: "s" * 255),
       broken, good[0] + broken + good[2], "\0\0\0\x11" * 8, "\xff" * 9, "\0" * 40,
       [18, Zlib.crc32("\1" * 18)].pack("NN") + "\1" * 18, [18, Zlib.crc32("\0" * 18)].pack("NN") + "\0" * 18]
    end

    def syslog
      new = ["<34>1 2003-10-11T22:14:15.003Z mymachine.example.com su - ID47 - \xEF\xBB\xBF'su root' failed",
             "<165>1 2003-08-24T05:14:15.000003-07:00 192.0.2.1 web 8710 - [a@1 b=\"c\\\"]\" d=\"\"][e] text", "<13>1 - - - - - -",
             "<13>1 - h a 1 i [x y=\"", "<13>1 2026-02-31T23:59:59+14:00 - quiet - - - ", "<13>1  - - - - -", "<13>1 - - - - - [a]b",
             "<13>1 1969-12-31T23:59:59Z - a - - - x", "<13>1 2026-13-01T00:00:00Z - a - - - x", "<13>1 2026-01-01T00:00:00.1234567Z - a - - - x"]
      old = ["<34>Oct 11 22:14:15 mymachine su: 'su root' failed for lonvick on /dev/pts/8", "<13>Oct  1 22:14:15 web[12]: x",
             "<0>Oct 11 22:14:15 host", "<12>2026-11-21T19:20:00.5+01:00 h quiet: y", "<191>web[1] x", "<11>a[b: c", "<11>a[b]c: d", "<11>[a]: b",
             "<11>http://a b", "<192>a", "<1234>a", "<>a", "<1", "plain \xff text", "Oct 11 22:14:15 h a: b", "<12>Oct 11 22:14:15 h a[b]c: d"]
      odd = ["<134>Nov 1 19:20:00 web1 shop[5]: x", "<134>Nov 21 2026 19:20:00 web1 shop: x", "<134>2026 nov  1 19:20:00.123 web1 shop: x",
             "<134>2026-11-21T19:20:00.123456789Z web1 shop:x", "<45>1 2014-01-09T20:34:44.693891+00:00 host web web.3 - Starting process",
             "<134>Nov 21 19:20:00 web1 {\"a\": 1}", "<134>{\"a\": 1}", "<189>123: r1: *Nov 21 19:20:00.123 UTC: %SYS-5-CONFIG_I: x",
             "<189>45: %SYS-5-X: y", "<189>45: r1: %SYS-5-X: y", "<13>backup: %5 done", "<189>456-1: %SYS-5-X: y",
             "<189>4th-floor: *Nov 21 19:20:00: %X: y",
             "<189>Nov 21 19:20:00 UTC: %SYS-5-X: y", "<166>:Nov 21 19:20:00: %ASA-6-1: y", "<13>Nov 21 19:20:00 h : %X: y",
             "<30>Nov 21 19:20:00 dock nginx:1.25[4711]: GET /", "Nov 21 19:20:00 web1 shop[5]: no pri", "Nov 21 19:20:00 it is text",
             "hello: there", "a[1]: there",
             "<13>Nov 21 19:20:00 2001:db8::1 web[1]: v6", "<13>Nov 21 19:20:00 12:30:00 x", "<13>  Nov 21 19:20:00 h web[01]: x", "<13>12: x",
             "<13>web[a|b]: x", "<13>Nov 21 19:20:00 a_b.c- web: x", "<13>2026-11-21T19:20:00 h web: x", "<13>a[]: x", "<13>a[]x", "<13>(a)[1]:b",
             "<13>C:\\x", "<13>a::b", "<13>1 2026-11-21T19:20:00Z h web 5 - [a", "<13>1 2026-11-21T19:20:00Z h web 5 - "]
      lines = (new + old + odd).map(&:b)
      framed = lines.map { |line| "#{line.bytesize} #{line}" }
      ["#{lines.join("\n")}\n", framed.join, lines.join("\r\n\n\0\n"), lines.join("\0"),
       "<13>#{"x" * 600}\0<14>#{"y" * 1023}\0\n\0z", "#{framed[0]}\n#{lines[1]}\n#{framed[2]}", *lines, *framed.first(3),
       framed[0].chop, "9 <1", "9 <1x\n",
       "7 <999>a\n", "3 <", "500 <html>\n<13>a: b\n", "<13>a: 1\n2\0<13>b: 3\n\0",
       "42 is the answer\n12\n1234567890 <3>\n0 <1>\n01 <3>", "5 <1>a\nb<2>c\n", "1 <1>a\n", "9", "99", "999999999 <", "1 <1 <", "\n\r\0\n\n"]
    end

    public

    def all
      frames.map { |bytes| Input.new(:analogger, :auto, 8192, bytes.b) } + [Input.new(:analogger, :auto, 30, frames.first.b)] +
        records.map { |bytes| Input.new(:records, :auto, 1 << 20, bytes.b) } + [Input.new(:records, :auto, 40, records.first.b)] +
        LogVerdicts::FRAMINGS.flat_map { |framing| syslog.map { |bytes| Input.new(:syslog, framing, 1 << 16, bytes.b) } } +
        syslog.map { |bytes| Input.new(:syslog, :auto, 40, bytes.b) }
    end
  end

  ALL = all.freeze
end
