# frozen_string_literal: true

# The cases of the Autobahn test suite, sections 1 to 7 and 10, as a table: what a client sends to a
# server that echoes, and what has to come back. No test itself.

require "websocket/serving"

module GyreTest
  # The table.
  module AutobahnCases
    # Answers are messages ([:text, payload], [:binary, payload], [:pong, payload]) and then the
    # close's code, or nil for one without. `pieces`: bytes that the client writes at a time.
    Case = Struct.new(:name, :bytes, :answers, :code, :pieces)

    OPCODES = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 }.freeze
    ALL = []
    KOSME = "κόσμε"
    HELLO = "Hello-µ@ßöäüàá-UTF-8!!"

    class << self
      def f(opcode, payload = "", final: true, reserved: 0)
        WebSocketServing.frame(OPCODES.fetch(opcode, opcode), payload, final: final, reserved: reserved)
      end

      # A whole message in frames with these payloads.
      def fragments(opcode, *payloads)
        payloads.each_with_index.map { |payload, index| f(index.zero? ? opcode : :continuation, payload, final: index == payloads.size - 1) }
      end

      def close(code = 1000, reason = "") = f(:close, [code].pack("n") + reason.b)

      # A case that the client ends.
      def fine(name, frames, answers, pieces: nil)
        add(name, [*frames, close], answers, 1000, pieces)
      end

      def fails(name, frames, answers = [], code: 1002, pieces: nil)
        add(name, [*frames], answers, code, pieces)
      end

      def add(name, frames, answers, code, pieces = nil)
        ALL << Case.new(name, frames.join, answers, code, pieces)
      end

      # The same whole, frame by frame, and byte by byte, as the suite counts them.
      def thrice(section, first)
        [nil, 20, 1].each_with_index { |pieces, index| yield "#{section}.#{first + index}", pieces }
      end
    end

    # 1: sizes
    sizes = [0, 125, 126, 127, 128, 65_535, 65_536]
    { text: "1.1", binary: "1.2" }.each do |opcode, section|
      sizes.each_with_index do |size, index|
        payload = (opcode == :text ? "*" : "\xfe".b) * size
        fine("#{section}.#{index + 1}", [f(opcode, payload)], [[opcode, payload]])
      end
      payload = (opcode == :text ? "*" : "\xfe".b) * 65_536
      fine("#{section}.8", [f(opcode, payload)], [[opcode, payload]], pieces: 997)
    end

    # 2: pings and pongs
    { "2.1" => "", "2.2" => "Hello, world!", "2.3" => "\x00\xff\xfe\xfd\xfc\xfb\x00\xff".b, "2.4" => "\xfe".b * 125 }.each do |name, payload|
      fine(name, [f(:ping, payload)], [[:pong, payload]])
    end
    fails("2.5", [f(:ping, "\xfe".b * 126)])
    fine("2.6", [f(:ping, "\xfe".b * 125)], [[:pong, "\xfe".b * 125]], pieces: 1)
    fine("2.7", [f(:pong)], [])
    fine("2.8", [f(:pong, "unsolicited pong payload")], [])
    fine("2.9", [f(:pong, "unsolicited pong payload"), f(:ping, "ping payload")], [[:pong, "ping payload"]])
    pings = (0..9).map { |index| "payload-#{index}" }
    fine("2.10", pings.map { |payload| f(:ping, payload) }, pings.map { |payload| [:pong, payload] })
    fine("2.11", pings.map { |payload| f(:ping, payload) }, pings.map { |payload| [:pong, payload] }, pieces: 1)

    # 3: reserved bits
    fails("3.1", [f(:text, "Hello, world!", reserved: 1)])
    { "3.2" => [2, nil], "3.3" => [3, 20], "3.4" => [4, 1] }.each do |name, (bits, pieces)|
      fails(name, [f(:text, "Hello, world!"), f(:text, "Hello, world!", reserved: bits), f(:ping)], [[:text, "Hello, world!"]], pieces: pieces)
    end
    fails("3.5", [f(:binary, "\x00\xff\xfe\xfd\xfc\xfb\x00\xff".b, reserved: 5)])
    fails("3.6", [f(:ping, "Hello, world!", reserved: 6)])
    fails("3.7", [f(:close, "", reserved: 7)])

    # 4: unknown opcodes
    [3..7, 11..15].each_with_index do |opcodes, part|
      opcodes.each_with_index do |opcode, index|
        name = "4.#{part + 1}.#{index + 1}"
        fails(name, [f(opcode, index.zero? ? "" : "reserved opcode payload")]) if index < 2
        fails(name, [f(:text, "Hello, world!"), f(opcode, index == 2 ? "" : "reserved"), f(:ping)], [[:text, "Hello, world!"]]) if index >= 2
      end
    end

    # 5: fragments
    fails("5.1", [f(:ping, "fragment1", final: false), f(:continuation, "fragment2")])
    fails("5.2", [f(:pong, "fragment1", final: false), f(:continuation, "fragment2")])
    thrice(5, 3) { |name, pieces| fine(name, fragments(:text, "fragment1", "fragment2"), [[:text, "fragment1fragment2"]], pieces: pieces) }
    thrice(5, 6) do |name, pieces|
      one, two = fragments(:text, "fragment1", "fragment2")
      fine(name, [one, f(:ping, "ping payload"), two], [[:pong, "ping payload"], [:text, "fragment1fragment2"]], pieces: pieces)
    end
    thrice(5, 9) { |name, pieces| fails(name, [f(:continuation, "non-continuation payload"), f(:text, "Hello")], pieces: pieces) }
    thrice(5, 12) { |name, pieces| fails(name, [f(:continuation, "non-continuation", final: false), f(:text, "Hello")], pieces: pieces) }
    fails("5.15", [*fragments(:text, "fragment1", "fragment2"), f(:continuation, "fragment3", final: false), f(:text, "fragment4")],
      [[:text, "fragment1fragment2"]])
    { "5.16" => false, "5.17" => true }.each do |name, final|
      group = [f(:continuation, "fragment1", final: final), f(:text, "fragment2", final: false), f(:continuation, "fragment3")]
      fails(name, group * 2)
    end
    fails("5.18", [f(:text, "fragment1", final: false), f(:text, "fragment2")])
    one, two, three, four, five = fragments(:text, *(1..5).map { |number| "fragment#{number}" })
    [["5.19", nil], ["5.20", 1]].each do |name, pieces|
      fine(name, [one, two, f(:ping, "pongme 1!"), three, four, f(:ping, "pongme 2!"), five],
        [[:pong, "pongme 1!"], [:pong, "pongme 2!"], [:text, (1..5).map { |number| "fragment#{number}" }.join]], pieces: pieces)
    end

    # 6: UTF-8
    fine("6.1.1", [f(:text)], [[:text, ""]])
    fine("6.1.2", fragments(:text, "", "", ""), [[:text, ""]])
    fine("6.1.3", fragments(:text, "", "middle frame payload", ""), [[:text, "middle frame payload"]])
    fine("6.2.1", [f(:text, HELLO)], [[:text, HELLO]])
    fine("6.2.2", fragments(:text, HELLO[0, 7], HELLO[7..]), [[:text, HELLO]])
    fine("6.2.3", fragments(:text, *HELLO.b.chars), [[:text, HELLO]])
    fine("6.2.4", fragments(:text, *KOSME.b.chars), [[:text, KOSME]])
    broken = "#{KOSME}\u{d7ff}".b << "\xed\xa0\x80edited".b
    fails("6.3.1", [f(:text, broken)], code: 1007)
    fails("6.3.2", fragments(:text, *broken.chars), code: 1007)
    # Refused before the rest has come, which a client here never sends.
    fails("6.4.1", [f(:text, "#{KOSME}\xf4\x90\x80\x80".b, final: false)], code: 1007)
    fails("6.4.2", [f(:text, "#{KOSME}\xf4\x90".b, final: false)], code: 1007)
    fails("6.4.3", [f(:text, "#{KOSME}\xf4\x90\x80\x80edited".b)[0..-7]], code: 1007)
    fails("6.4.4", [f(:text, "#{KOSME}\xf4\x90\x80\x80edited".b)[0..-9]], code: 1007)
    valid = [KOSME, "\0", "\u0080", "\u0800", "\u{10000}", "\x7f", "\u07ff", "\uffff", "\u{10ffff}", "\ud7ff", "\ue000", "\ufffd",
             "\ufffe", "\ufdd0", "\u{1fffe}", "\u{1ffff}", "\u{8fffe}", "\u{10fffe}"]
    valid.each_with_index { |text, index| fine("6.valid.#{index + 1}", [f(:text, text)], [[:text, text]]) }
    invalid = ["\xce", "\xce\xba\xe1", "\xce\xba\xe1\xbd", "\xf8\x88\x80\x80\x80", "\xfc\x84\x80\x80\x80\x80", "\xf7\xbf\xbf\xbf",
               "\xfb\xbf\xbf\xbf\xbf", "\xf4\x90\x80\x80", "\x80", "\xbf", "\x80\xbf\x80", (0x80..0xbf).to_a.pack("C*"), "\xc0 \xc1 ",
               "\xe0 \xe1 ", "\xf0 \xf1 ", "\xf8 \xfc ", "\xe0\x80", "\xf0\x80\x80", "\xdf", "\xef\xbf", "\xfe", "\xff", "\xfe\xfe\xff\xff",
               "\xc0\xaf", "\xe0\x80\xaf", "\xf0\x80\x80\xaf", "\xc1\xbf", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf", "\xc0\x80", "\xe0\x80\x80",
               "\xed\xa0\x80", "\xed\xad\xbf", "\xed\xae\x80", "\xed\xaf\xbf", "\xed\xb0\x80", "\xed\xbe\x80", "\xed\xbf\xbf",
               "\xed\xa0\x80\xed\xb0\x80", "\xed\xaf\xbf\xed\xbf\xbf"]
    invalid.each_with_index do |text, index|
      fails("6.invalid.#{index + 1}", [f(:text, text.b)], code: 1007)
      fails("6.invalid.#{index + 1} in bytes", fragments(:text, *text.b.chars), code: 1007)
    end

    # 7: closing
    fine("7.1.1", [f(:text, "Hello World!")], [[:text, "Hello World!"]])
    add("7.1.2", [close, close], [], 1000)
    add("7.1.3", [close, f(:ping)], [], 1000)
    add("7.1.4", [close, f(:text, "Hello World!")], [], 1000)
    add("7.1.5", [f(:text, "fragment1", final: false), close, f(:continuation, "fragment2")], [], 1000)
    long = "BAsd7&jh23" * 26_214
    add("7.1.6", [f(:text, long), f(:text, "Hello World!"), close, f(:ping)], [[:text, long], [:text, "Hello World!"]], 1000)
    add("7.3.1", [f(:close)], [], nil)
    fails("7.3.2", [f(:close, "a")])
    add("7.3.3", [close], [], 1000)
    add("7.3.4", [close(1000, "Hello World!")], [], 1000)
    add("7.3.5", [close(1000, "*" * 123)], [], 1000)
    fails("7.3.6", [close(1000, "*" * 124)])
    fails("7.5.1", [close(1000, "\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80edited".b)], code: 1007)
    [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999].each_with_index do |code, index|
      add("7.7.#{index + 1}", [close(code)], [], code)
    end
    [0, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999, 5000, 65_535].each_with_index do |code, index|
      fails("7.9.#{index + 1}", [close(code)])
    end

    # 10: a message in many frames
    payload = "*" * 65_536
    fine("10.1.1", fragments(:text, *payload.scan(/.{1,1300}/)), [[:text, payload]])
    ALL.each(&:freeze).freeze
  end
end
