# frozen_string_literal: true

# Gyre::Log::DiskQueue: a row of records on disk. What clients and outputs do with it is in
# client/spools_test.rb and output/spill_test.rb.

require "test_helper"
require "oracle/log/records"
require "gyre/log/disk_queue"
require "gyre/loop"
require "tmpdir"

class LogDiskQueueTest < Minitest::Test
  def setup
    Gyre::Loop.require_native("the log")
    @folder = Dir.mktmpdir
    @reports = []
    @queues = []
  end

  def teardown
    @queues.each(&:close)
    FileUtils.rm_rf(@folder)
  end

  def queue(format: :records, limit: 10_000, segment_bytes: 500)
    lock = File.open(File.join(@folder, "lock"), File::RDWR | File::CREAT, 0o600)
    Gyre::Log::DiskQueue.new(@folder, lock, format: format, limit: limit, record_limit: 1 << 20, segment_bytes: segment_bytes,
                                            report: @reports.method(:push)).tap { |made| @queues << made }
  end

  def record(number) = Gyre::Log::Records.encode(seq: number, time_us: 1, service: "", severity: "", message: "message #{number}")

  def numbers(queue)
    found = []
    while (bytes, = queue.read)
      found += Gyre::Log::Records.each(bytes).map { |number,| number }
    end
    found
  end

  def files = Dir.children(@folder).grep_v("lock").sort

  def damage(name, text)
    path = File.join(@folder, name)
    bytes = File.binread(path)
    bytes.setbyte(bytes.index(text), 0)
    File.binwrite(path, bytes)
  end

  # The child dies in the block, behind its first rename.
  def killed_after_a_rename
    child = fork do
      File.singleton_class.prepend(Module.new { define_method(:rename) { |*names| super(*names) && Process.kill(:KILL, Process.pid) } })
      yield
    end
    Process.wait(child)
    assert_equal Signal.list["KILL"], $?.termsig
  end

  def test_the_next_owner_goes_on_in_a_segment_of_its_own
    queue.append(record(1) + record(2))
    @queues.last.close
    second = queue
    second.append(record(3))
    assert_equal [1, 2, 3], numbers(second)
    assert_equal %w[00000001.records 00000002.records], files
  end

  def test_a_damaged_last_record_ends_its_segment_which_is_kept
    queue.append(record(1) + record(2))
    @queues.last.close
    damage("00000001.records", "message 2")
    second = queue
    _, last, _, mark = second.read
    assert_equal [1, nil], [last, second.read]
    refute_predicate second, :empty?
    second.acknowledge(mark)
    assert_predicate second, :empty?
    second.delete
    assert_equal ["00000001.records.damaged"], files
    assert_equal 1, @reports.size
    assert_match(/\A#{record(2).bytesize} bytes of .*00000001.records are damaged/, @reports.first)
    assert_includes File.binread("#{@folder}/00000001.records.damaged"), "essage 2"
  end

  def test_damage_in_an_older_segment_loses_none_of_the_others
    first = queue(segment_bytes: 60)
    (1..3).each { |number| first.append(record(number)) }
    first.close
    damage("00000002.records", "message 2")
    second = queue
    assert_equal [1, 3], numbers(second)
    second.rewind
    assert_equal [1, 3], numbers(second)
    second.clear
    assert_equal ["00000002.records.damaged"], files
  end

  def test_a_length_that_is_damaged_in_an_older_segment_destroys_nothing_after_it
    first = queue(segment_bytes: 200)
    (1..4).each { |number| first.append(record(number)) }
    first.close
    path = "#{@folder}/00000001.records"
    bytes = File.binread(path)
    bytes[bytes.index("message 1") + 9, 4] = [1 << 24].pack("N")
    File.binwrite(path, bytes)
    second = queue
    assert_equal [1, 4], numbers(second)
    second.clear
    assert_equal ["00000001.records.damaged"], files
    assert_equal bytes, File.binread("#{path}.damaged").then { |kept| kept[0, 32] + bytes[32, 32] + kept[64..] }
    assert_match(/ are damaged, and left out/, @reports.join)
  end

  def test_a_finished_segment_that_a_kill_left_is_not_taken_for_damaged
    first = queue(segment_bytes: 60)
    (1..2).each { |number| first.append(record(number)) }
    first.instance_variable_get(:@segments).first.then { |segment| segment.position = segment.size }
    first.close
    second = queue(limit: 100)
    assert_equal 1, second.evict(90)
    second.clear
    assert_empty files
    assert_empty @reports
  end

  def test_a_file_whose_process_was_killed_while_making_it_is_removed
    queue.append(record(1))
    @queues.last.close
    head = File.binread("#{@folder}/00000001.records").byteslice(0, 64)
    64.times do |bytes|
      File.binwrite("#{@folder}/00000001.records", head.byteslice(0, bytes))
      queue.close
      assert_empty files
    end
    assert_empty @reports
  end

  def test_a_file_of_another_version_is_kept_and_one_of_another_format_refused
    File.binwrite("#{@folder}/00000001.records", "GYRESPILL1\n#{"x" * 100}")
    File.chmod(0o600, "#{@folder}/00000001.records")
    first = queue
    assert_match(/damaged, or of another version; the file is kept/, @reports.first)
    first.append(record(1))
    first.close
    assert_equal %w[00000001.records.damaged 00000002.records], files
    error = assert_raises(Gyre::Log::DiskQueue::Segment::Foreign) { queue(format: :json) }
    assert_match(/00000002.records holds records, not json\z/, error.message)
    assert_equal [1], numbers(queue)
  end

  def test_a_file_that_was_put_aside_keeps_its_name
    2.times do |time|
      first = queue
      first.append(record(1))
      first.close
      damage(files.grep_v(/damaged/).first, "message 1")
      second = queue
      assert_nil second.read
      second.clear
      second.close
      assert_equal time + 1, files.size
    end
  end

  def test_a_segment_whose_renaming_was_killed_is_read
    first = queue
    (1..2).each { |number| first.append(record(number)) }
    killed_after_a_rename { first.last.write_again(record(2)) }
    first.close
    assert_equal ["00000001.records.renamed"], files
    second = queue
    assert_equal [1, 2], numbers(second)
    second.append(record(3))
    assert_equal %w[00000001.records 00000002.records], files
  end

  def test_what_is_synced_is_not_written_again
    first = queue
    first.append(record(1))
    first.sync
    assert_predicate first.last, :synced?
    first.append(record(2))
    refute_predicate first.last, :synced?
    bytes = first.last.doubtful
    assert_equal record(2), bytes
    first.last.write_again(bytes)
    assert_equal [1, 2], numbers(first)
  end

  def test_evicting_a_segment_that_cannot_be_read_keeps_its_file
    first = queue(limit: 200)
    first.append(record(1))
    first.close
    damage("00000001.records", "message 1")
    second = queue(limit: 200)
    assert_equal 0, second.evict(190)
    assert_predicate second, :empty?
    second.clear
    assert_equal ["00000001.records.damaged"], files
  end
end
