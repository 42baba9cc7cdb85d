# frozen_string_literal: true

# The contract of ext/gyre/log/log_outbox.c.
require "test_helper"
require "gyre/log/disk_queue"
require "gyre/log/wire"
require "oracle/log/records"

class LogOutboxTest < Minitest::Test
  RECORD_LIMIT = (1 << 20) + 8

  def setup
    Gyre::Loop.require_native("the log client")
  end

  def outbox(service = "app", limit: 1 << 20, record_limit: RECORD_LIMIT, framed: false)
    Gyre::Log::Outbox.new(service, limit, record_limit, framed)
  end

  # Everything that is in, as [sequence, service, severity, message].
  def taken(outbox)
    records = []
    while (entry = outbox.take)
      bytes, last, count = entry
      before = records.size
      Gyre::Log::Records.each(bytes) { |sequence, _, *texts| records << [sequence, *texts] }
      assert_equal [last, count], [records.last.first, records.size - before]
    end
    records
  end

  def test_records_come_out_as_the_codec_writes_them
    box = outbox
    before = Process.clock_gettime(Process::CLOCK_REALTIME, :microsecond)
    assert_equal true, box.append("info", "héllo")
    bytes, last, count = box.take
    assert_equal [1, 1], [last, count]
    time = bytes.unpack1("Q>", offset: 16)
    assert_includes before..(before + 60_000_000), time
    assert_equal Gyre::Log::Records.encode(seq: 1, time_us: time, service: "app", severity: "info", message: "héllo"), bytes
    assert_equal Encoding::BINARY, bytes.encoding
    assert_nil box.take
  end

  def test_numbers_go_on_and_the_order_stays
    box = outbox(limit: 1 << 24)
    30_000.times { |number| assert box.append("info", number.to_s) }
    assert_operator box.bytesize, :>, 30_000 * 35
    records = taken(box)
    assert_equal (0...30_000).map { |number| [number + 1, "app", "info", number.to_s] }, records
    assert_equal [0, 30_000], [box.bytesize, box.sequence]
    box.append("info", "more")
    assert_equal 30_001, taken(box).first.first
  end

  def test_severities_are_names_symbols_and_numbers_of_logger
    box = outbox
    [0, 1, 2, 3, 4, 5, 99, -1, :notice, "x".b, "a:b|c", ""].each { |severity| assert box.append(severity, "") }
    assert_equal ["debug", "info", "warn", "error", "fatal", "fatal", "fatal", "debug", "notice", "x", "a:b|c", ""],
      taken(box).map { |record| record[2] }
    [nil, 1.5, Object.new].each { |severity| assert_equal false, box.append(severity, "") }
  end

  def test_messages_are_taken_as_they_are_or_not_at_all
    box = outbox
    good = ["ü", "\xFF\xFE", "a\0b\n", "", "bin\xE9".b, "x" * 100_000]
    good.each { |message| assert box.append("i", message) }
    assert_equal good.map(&:b), taken(box).map(&:last)
    ["ü".encode("UTF-16LE"), "ü".encode("ISO-8859-1"), :symbol, nil, 12].each { |message| assert_equal false, box.append("i", message) }
    assert_equal [good.size, nil], [box.sequence, box.take]
  end

  def test_what_is_too_long_is_not_in
    box = outbox(record_limit: 26 + 3 + 4 + 100)
    assert box.append("info", "x" * 100)
    assert_equal false, box.append("info", "x" * 101)
    assert box.append("x" * 104, "")
    assert_equal false, outbox.append("x" * 256, "")
    assert outbox.append("x" * 255, "")
    assert_raises(ArgumentError) { outbox("s" * 256) }
  end

  def test_a_framed_one_takes_what_a_frame_can_carry
    box = outbox(framed: true)
    assert box.append("info", "a:b" + "x" * (8191 - 11 - 7 - 3))
    assert_equal false, box.append("info", "x" * (8191 - 11 - 7 + 1))
    assert_equal false, box.append("in:fo", "x")
    assert_equal false, box.append(:"in:fo", "x")
    assert_equal 1, taken(box).size
  end

  def test_the_limit_counts_what_is_held
    box = outbox(limit: 8192)
    count = 0
    count += 1 while box.append("info", "x" * 67) # 100 bytes
    assert_equal 81, count
    bytes, = box.take
    assert_equal 8100 - bytes.bytesize, box.bytesize
    assert box.append("info", "x" * 67)
    box.held = bytes.bytesize
    assert_equal false, box.append("info", "x" * 67)
    assert_equal true, box.store("info", "x" * 67, true)
    box.held = 0
    assert box.append("info", "x" * 67)
    assert_equal 84, box.sequence
  end

  def test_one_record_may_always_be_in
    box = outbox(limit: 8192)
    assert box.append("info", "x" * 100_000)
    assert_equal false, box.append("info", "")
    assert_equal 100_000, taken(box).first.last.bytesize
  end

  def test_attention_stops_append_and_not_store
    box = outbox
    box.attention = true
    assert_equal false, box.append("info", "a")
    assert_equal true, box.store("info", "b", false)
    box.attention = false
    assert_equal true, box.append("info", "c")
    assert_equal %w[b c], taken(box).map(&:last)
  end

  def test_the_first_record_after_await_asks_for_a_wake_up
    box = outbox
    assert_equal true, box.await
    assert_nil box.append("info", "a")
    assert_equal true, box.append("info", "b")
    assert_equal false, box.await
    taken(box)
    assert_equal true, box.await
    box.awake
    assert_equal true, box.append("info", "c")
  end

  def test_threads_share_one
    box = outbox(limit: 1 << 26)
    threads = Array.new(4) { |name| Thread.new { 2000.times { |number| box.append("info", "#{name} #{number}") } } }
    records = []
    records.concat(taken(box)) while threads.any?(&:alive?)
    records.concat(taken(box))
    assert_equal (1..8000).to_a, records.map(&:first)
    4.times do |name|
      mine = records.map(&:last).select { |message| message.start_with?("#{name} ") }
      assert_equal (0...2000).map { |number| "#{name} #{number}" }, mine
    end
  end

  def test_a_signal_handler_may_append
    box = outbox
    before = trap(:USR1) { 100.times { |number| box.append("info", "trap #{number}") } }
    worker = Thread.new { 2000.times { |number| box.append("info", number.to_s) } }
    20.times do
      Process.kill(:USR1, Process.pid)
      50.times { box.append("info", "main") }
    end
    worker.join
    records = taken(box)
    eventually { (records += taken(box)).count { |record| record.last == "trap 99" }.positive? }
    trap(:USR1, before)
    records += taken(box)
    assert_equal (1..records.size).to_a, records.map(&:first)
    assert_equal 1000, records.count { |record| record.last == "main" }
  ensure
    trap(:USR1, before || "DEFAULT")
  end

  def test_a_child_sees_that_it_was_forked_and_starts_over
    skip "no fork here" unless Process.respond_to?(:fork)
    box = outbox
    box.append("info", "parent")
    reader, writer = IO.pipe
    pid = fork do
      seen = [box.forked?, box.append("info", "x"), box.store("info", "x", true)]
      box.reset
      seen += [box.forked?, box.bytesize, box.sequence, box.append("info", "child"), taken(box)]
      writer.write(Marshal.dump(seen))
    ensure
      exit!(0)
    end
    writer.close
    assert_equal [true, false, false, false, 0, 0, true, [[1, "app", "info", "child"]]], Marshal.load(reader.read)
    Process.wait(pid)
    assert_equal [false, true], [box.forked?, box.append("info", "still")]
    assert_equal %w[parent still], taken(box).map(&:last)
  ensure
    [reader, writer].each { |io| io&.close }
  end

  # --- batches ---

  def batch(*messages)
    messages.each_with_index.map do |message, index|
      Gyre::Log::Records.encode(seq: (index + 1) * 10, time_us: index, service: "app", severity: "info", message: message)
    end
  end

  def test_measure_counts_whole_records_wherever_the_bytes_end
    one, two = batch("first", "the second")
    bytes = one + two
    (0..bytes.bytesize).each do |length|
      expected = if length < one.bytesize then [0, 0, 0]
                 elsif length < bytes.bytesize then [one.bytesize, 1, 10]
                 else [bytes.bytesize, 2, 20]
                 end
      assert_equal expected, Gyre::Log::Outbox.measure(bytes.byteslice(0, length), RECORD_LIMIT), "#{length} bytes"
    end
  end

  def test_measure_stops_at_damage
    one, two = batch("first", "the second")
    (0...two.bytesize).each do |at|
      damaged = two.dup.tap { |copy| copy.setbyte(at, copy.getbyte(at) ^ 0x40) }
      assert_equal [one.bytesize, 1, 10], Gyre::Log::Outbox.measure(one + damaged, RECORD_LIMIT), "byte #{at}"
    end
    assert_equal [0, 0, 0], Gyre::Log::Outbox.measure(one, one.bytesize - 1)
  end

  def test_after_finds_the_first_record_with_a_higher_number
    one, two, three = batch("1", "two", "three!")
    bytes = one + two + three
    { 0 => 0, 9 => 0, 10 => one.bytesize, 25 => one.bytesize + two.bytesize, 30 => bytes.bytesize, 99 => bytes.bytesize }
      .each { |sequence, offset| assert_equal offset, Gyre::Log::Outbox.after(bytes, sequence) }
  end

  def test_frames_are_those_of_the_wire
    messages = ["", "a:b", "ü\n", "x" * 8000]
    bytes = batch(*messages).join
    assert_equal [messages.map { |message| Gyre::Log::Wire.frame("app", "info", message) }.join, 0], Gyre::Log::Outbox.frames(bytes)
    assert_equal ["", 1], Gyre::Log::Outbox.frames(batch("x" * 8191).join)
    colon = Gyre::Log::Records.encode(seq: 1, time_us: 1, service: "a:b", severity: "info", message: "")
    assert_equal [Gyre::Log::Wire.frame("app", "info", "fits"), 1], Gyre::Log::Outbox.frames(colon + batch("fits").join)
  end

  def test_framed_finds_the_record_in_which_the_frames_were_cut
    records = batch("1", "two", "three!")
    bytes = records.join
    frames, = Gyre::Log::Outbox.frames(bytes)
    ends = %w[1 two three!].map { |message| Gyre::Log::Wire.frame("app", "info", message).bytesize }
    (0..frames.bytesize).each do |count|
      whole = (0..3).select { |number| ends.first(number).sum <= count }.max
      assert_equal records.first(whole).sum(&:bytesize), Gyre::Log::Outbox.framed(bytes, count), "#{count} bytes"
    end
  end
end
