# frozen_string_literal: true

require "test_helper"
require "minitest/mock"
require "oracle/log/records"
require "gyre/log/client/spools"
require "gyre/loop"
require "tmpdir"

class LogSpoolsTest < Minitest::Test
  IDENTITY = Gyre::Log::Identity.of("0123456789abcdef" * 2)
  ID = IDENTITY.client_id
  OTHER = Gyre::Log::Identity.of("f" * 32)

  def setup
    Gyre::Loop.require_native("the log client")
    @folder = Dir.mktmpdir
    @reports = []
  end

  def teardown
    FileUtils.rm_rf(@folder)
  end

  def options(limit: 1 << 20)
    { limit: limit, record_limit: (1 << 20) + 8, report: ->(text) { @reports << text } }
  end

  def spool(identity = IDENTITY, **settings)
    Gyre::Log::Spools.create(@folder, "app", identity, **options(**settings))
  end

  def orphans(name = "app")
    Gyre::Log::Spools.to_enum(:each_orphan, @folder, name, **options).to_a
  end

  def identity(spool) = Gyre::Log::Identity.of(spool.note)

  def record(number, message = "message #{number}")
    Gyre::Log::Records.encode(seq: number, time_us: number, service: "app", severity: "info", message: message)
  end

  def records(range)
    range.map { |number| record(number) }.join
  end

  # Everything unread: sequence numbers, and the last mark.
  def read_all(spool)
    numbers = []
    mark = nil
    while (found = spool.read)
      bytes, last, count, mark = found
      these = Gyre::Log::Records.each(bytes).map { |number,| number }
      assert_equal [these.last, these.size], [last, count]
      numbers += these
    end
    [numbers, mark]
  end

  # Another user's, and what another user could have changed, is neither sent nor removed.
  def test_a_spool_that_another_user_may_have_planted_is_left_alone
    { "changed by other users" => ->(path) { File.chmod(0o777, path) },
      "is a link" => ->(path) { File.rename("#{path}/lock", "#{@folder}/elsewhere").then { File.symlink("#{@folder}/elsewhere", "#{path}/lock") } },
      "has another name" => ->(path) { File.link("#{path}/00000001.records", "#{@folder}/elsewhere") },
      "mode 0666" => ->(path) { File.chmod(0o666, "#{path}/00000001.records") } }.each do |why, change|
      spool = spool()
      spool.append(record(1))
      crash(spool)
      change.call(spool.path)
      @reports.clear
      assert_empty orphans
      assert_match(/\Anot sent: .*#{why}/, @reports.join)
      assert_path_exists "#{spool.path}/00000001.records"
      FileUtils.rm_rf([spool.path, "#{@folder}/elsewhere"])
    end
  end

  def test_a_spool_that_belongs_to_another_user_is_left_alone
    skip "only root may give files away" unless Process.euid.zero?
    ["", "/lock", "/00000001.records"].each do |part|
      spool = spool()
      spool.append(record(1))
      crash(spool)
      File.chown(65_534, nil, spool.path + part)
      @reports.clear
      assert_empty orphans
      assert_match(/\Anot sent: .*belongs to user 65534, and this process runs as user 0/, @reports.join)
      FileUtils.rm_rf(spool.path)
    end
  end

  def test_no_spool_is_made_or_looked_for_in_a_folder_that_others_may_change
    File.chmod(0o770, @folder)
    assert_raises(Gyre::Log::Ownership::Refused) { spool }
    assert_raises(Gyre::Log::Ownership::Refused) { orphans }
    assert_empty Dir.children(@folder)
    File.chmod(0o700, @folder)
    spool.close
    File.chmod(0o770, @folder)
    assert_nil Gyre::Log::Spools.adopt(File.join(@folder, "app.#{ID}"), **options)
    assert_match(/\Anot sent: #{@folder} may be changed by other users/, @reports.join)
    File.chmod(0o700, @folder)
    FileUtils.rm_rf("#{@folder}/app.#{ID}")
    File.symlink(@folder, "#{@folder}/link")
    spool = Gyre::Log::Spools.create("#{@folder}/link", "app", IDENTITY, **options) # this user's own link
    assert_path_exists File.join(@folder, "app.#{ID}")
    spool.delete
  end

  # What a crash leaves: the process is gone, so is its lock.
  def crash(spool)
    spool.close
  end

  def segment_path(spool)
    Dir[File.join(spool.path, "*.records")].max
  end

  def test_records_are_read_in_order_and_again_until_they_are_acknowledged
    spool = spool()
    assert spool.append(records(1..3))
    assert spool.append(records(4..5))
    numbers, mark = read_all(spool)
    assert_equal [1, 2, 3, 4, 5], numbers
    refute spool.unread?
    spool.rewind
    assert_equal [1, 2, 3, 4, 5], read_all(spool).first
    spool.acknowledge(spool.before(mark, records(4..5).bytesize))
    spool.rewind
    assert_equal [4, 5], read_all(spool).first
    assert_equal records(4..5).bytesize, spool.bytesize
    spool.acknowledge(mark)
    assert spool.empty?
    spool.delete
    assert_empty Dir.children(@folder)
  end

  def test_what_is_appended_while_reading_is_read_too
    spool = spool()
    spool.append(record(1))
    assert_equal [1], read_all(spool).first
    refute spool.unread?
    spool.append(record(2))
    assert spool.unread?
    assert_equal [2], read_all(spool).first
    crash(spool)
  end

  def test_a_lock_without_a_secret_is_reported_and_its_spool_left_alone
    spool = spool()
    spool.append(record(1))
    File.truncate("#{spool.path}/lock", 0)
    crash(spool)
    assert_empty orphans
    assert_match(/\Anot sent: .* has no secret of a client in its lock/, @reports.join)
    assert_path_exists "#{spool.path}/00000001.records"
  end

  def test_a_disk_that_takes_no_more_holds_up_nothing_that_is_done
    spool = spool()
    spool.append(records(1..3))
    _, mark = read_all(spool)
    file = spool.instance_variable_get(:@segments).first.instance_variable_get(:@file)
    file.define_singleton_method(:pwrite) { |*| raise Errno::EIO }
    spool.acknowledge(mark)
    assert spool.empty?
    File.stub(:delete, ->(*) { raise Errno::EROFS }) { spool.delete }
    assert_equal ["Input/output error", "Read-only file system"], @reports.map { |text| text[/keeps what is done: (.*)/, 1] }.uniq
    assert file.closed?
    adopted, = orphans
    assert_equal [1, 2, 3], read_all(adopted).first # the server knows that it has them
    adopted.close
  end

  def test_many_segments_are_one_row_and_are_deleted_one_by_one
    spool = spool()
    200.times { |number| spool.append(record(number + 1, "x" * 4000)) }
    files = -> { Dir[File.join(spool.path, "*.records")].size }
    all = files.call
    assert_operator all, :>, 5
    numbers = []
    until (found = spool.read).nil?
      numbers += Gyre::Log::Records.each(found[0]).map { |number,| number }
      spool.acknowledge(found[3])
      assert_operator files.call, :<=, all
      all = files.call
    end
    assert_equal (1..200).to_a, numbers
    assert_equal 1, all
    assert spool.empty?
    spool.delete
  end

  def test_a_record_longer_than_a_read
    spool = spool()
    spool.append(record(1, "y" * 700_000) + record(2))
    assert_equal [1, 2], read_all(spool).first
    crash(spool)
    spool, = orphans
    assert_equal [1, 2], read_all(spool).first
    spool.close
  end

  def test_the_limit
    spool = spool(limit: 1000)
    count = 0
    count += 1 while spool.append(record(count + 1, "x" * 71)) # 105 bytes
    assert_equal 9, count
    found = spool.read
    assert_equal 9, found[2]
    spool.acknowledge(spool.before(found[3], 105 * 8))
    assert spool.append(record(10, "x" * 71))
    refute spool.append(record(11, "x" * 71))
    crash(spool)
  end

  def test_making_room_drops_whole_records_and_counts_them
    spool = spool(limit: 1000)
    (1..9).each { |number| spool.append(record(number, "x" * 71)) }
    assert_equal 2, spool.evict(200)
    assert spool.append(record(10, "x" * 71) + record(11, "x" * 60))
    assert_equal 0, spool.evict(10)
    assert_equal (3..11).to_a, read_all(spool).first
    assert_equal 9, spool.evict(1000)
    assert spool.empty?
    crash(spool)
  end

  def test_another_process_adopts_what_a_dead_one_left_and_goes_on_where_it_was
    spool = spool()
    spool.append(records(1..5))
    found = spool.read
    spool.acknowledge(spool.before(found[3], records(4..5).bytesize))
    assert_empty orphans, "its owner lives"
    crash(spool)
    adopted, *more = orphans
    assert_empty more
    assert_equal IDENTITY, identity(adopted)
    assert_equal [4, 5], read_all(adopted).first
    assert_empty orphans, "it has an owner again"
    adopted.close
  end

  def test_the_oldest_is_adopted_first
    identities = Array.new(3) { Gyre::Log::Identity.fresh }
    identities.each_with_index do |identity, index|
      crash(spool(identity).tap { |spool| spool.append(record(1)) })
      FileUtils.touch(File.join(@folder, "app.#{identity.client_id}", "lock"), mtime: Time.at(1000 + index))
    end
    assert_equal identities, orphans.map { |spool| identity(spool).tap { spool.close } }
  end

  def test_only_spools_of_the_same_name_are_adopted
    crash(spool.tap { |spool| spool.append(record(1)) })
    other = Gyre::Log::Spools.create(@folder, "app.more", OTHER, **options)
    other.append(record(1))
    other.close
    { "app" => IDENTITY, "app.more" => OTHER }.each do |name, identity|
      assert_equal [identity], orphans(name).map { |spool| identity(spool).tap { spool.close } }
    end
    assert_empty Gyre::Log::Spools.to_enum(:each_orphan, File.join(@folder, "missing"), "app", **options).to_a
  end

  def test_a_crash_at_any_byte_of_the_last_write_loses_only_that_record
    spool = spool()
    spool.append(records(1..2))
    path = segment_path(spool)
    whole = File.size(path)
    spool.append(record(3, "the third"))
    bytes = File.binread(path)
    crash(spool)
    (whole..bytes.bytesize).each do |size|
      File.binwrite(path, bytes.byteslice(0, size))
      adopted, = orphans
      assert_equal size == bytes.bytesize ? [1, 2, 3] : [1, 2], read_all(adopted).first, "#{size} bytes"
      assert_equal size == bytes.bytesize ? size : whole, File.size(path)
      adopted.close
    end
    assert_equal bytes.bytesize - whole - 1, @reports.size, "each but the whole ones is reported"
  end

  def test_a_segment_without_a_record_as_a_full_disk_leaves_it_is_not_damage
    spool = spool()
    spool.append(records(1..2))
    Gyre::Log::DiskQueue::Segment.create(File.join(spool.path, "00000002.records"), :records).close
    crash(spool)
    adopted, = orphans
    assert_equal [1, 2], read_all(adopted).first
    refute_predicate adopted, :unread?
    assert_empty @reports
    adopted.close
  end

  def test_a_crash_at_any_byte_of_a_new_segment_loses_no_older_one
    spool = spool()
    spool.append(records(1..2))
    second = File.join(spool.path, "00000002.records")
    fresh = Gyre::Log::DiskQueue::Segment.create(second, :records)
    fresh.append(record(3))
    bytes = File.binread(second)
    fresh.close
    crash(spool)
    (0..bytes.bytesize).each do |size|
      File.binwrite(second, bytes.byteslice(0, size))
      adopted, = orphans
      expected = size == bytes.bytesize ? [1, 2, 3] : [1, 2]
      assert_equal expected, read_all(adopted).first, "#{size} bytes"
      adopted.close
    end
  end

  def test_a_position_torn_at_any_byte_is_the_one_before_or_the_new_one
    spool = spool()
    spool.append(records(1..4))
    found = spool.read
    one = records(1..1).bytesize
    spool.acknowledge(spool.before(found[3], one * 3))
    path = segment_path(spool)
    before = File.binread(path)
    spool.acknowledge(spool.before(found[3], one * 2))
    after = File.binread(path)
    crash(spool)
    changed = (0...64).reject { |index| before.getbyte(index) == after.getbyte(index) }
    refute_empty changed
    (changed.first..changed.last + 1).each do |torn|
      File.binwrite(path, after.byteslice(0, torn) + before.byteslice(torn..))
      adopted, = orphans
      first = read_all(adopted).first.first
      assert_equal torn > changed.last ? 3 : 2, first, "torn at #{torn}"
      adopted.close
    end
  end

  def test_a_damaged_record_is_left_out_and_those_after_it_are_read
    spool = spool()
    spool.append(records(1..5))
    path = segment_path(spool)
    crash(spool)
    bytes = File.binread(path)
    bytes.setbyte(bytes.index("message 3"), 0x4d)
    File.binwrite(path, bytes)
    adopted, = orphans
    numbers, mark = read_all(adopted)
    assert_equal [1, 2, 4, 5], numbers
    assert_match(/#{record(3).bytesize} bytes of .* are damaged, and left out/, @reports.join)
    adopted.acknowledge(mark)
    assert adopted.empty?
    adopted.delete
    assert_equal ["00000001.records.damaged"], Dir.children(adopted.path)
  end

  # Kills its own process before the step of that number.
  module Killing
    class << self
      attr_accessor :left
    end

    { IO => %i[pwrite write], File => %i[flock], File.singleton_class => %i[open rename], Dir.singleton_class => %i[mkdir] }.each do |where, names|
      steps = Module.new do
        names.each do |name|
          define_method(name) do |*arguments, **options, &block|
            Process.kill(:KILL, Process.pid) if Killing.left && (Killing.left -= 1).negative?
            super(*arguments, **options, &block)
          end
        end
      end
      const_set("#{where.inspect[/\w+(?=>?\z)/]}#{names.first.capitalize}Steps", steps)
      where.prepend(steps)
    end
  end

  # In a process that is killed before its step of that number.
  def stored_before(step)
    told, tell = IO.pipe
    pid = fork do
      Killing.left = step
      identities = Array.new(2) { Gyre::Log::Identity.fresh }
      spool = Gyre::Log::Spools.create(@folder, "app", identities[0], **options)
      [1..3, 4..4].zip(identities.reverse) do |range, identity|
        spool.append(records(range))
        tell.syswrite(range.to_a.pack("C*"))
        spool.note = identity.secret
      end
      exit! 0
    end
    tell.close
    [told.read.unpack("C*"), Process.wait2(pid).last.success?]
  ensure
    [told, tell].each(&:close)
  end

  def test_killed_at_each_step_it_keeps_its_records_and_a_whole_secret
    skip "no fork here" unless Process.respond_to?(:fork)
    steps = (0..).find do |step|
      stored, whole = stored_before(step)
      adopted, *more = orphans
      numbers = adopted ? read_all(adopted).first : []
      assert_empty more
      assert_equal stored, numbers.first(stored.size), "killed at step #{step}"
      assert_match(/\A\h{32}\z/, adopted.note, "killed at step #{step}") if adopted
      adopted&.delete
      FileUtils.rm_rf(Dir.children(@folder).map { |entry| File.join(@folder, entry) })
      whole
    end
    assert_operator steps, :>, 8
    assert_empty @reports
  end

  def test_damage_in_a_head_puts_the_segment_aside
    spool = spool()
    spool.append(records(1..3))
    path = segment_path(spool)
    crash(spool)
    File.binwrite(path, "X", 5)
    adopted, = orphans
    assert_equal [[], nil], read_all(adopted)
    assert adopted.empty?
    adopted.delete
    assert_equal ["00000001.records.damaged"], Dir.children(adopted.path)
    assert_match(/damaged/, @reports.join)
  end

  def test_a_full_disk_leaves_whole_records
    code = <<~RUBY
      require "gyre/loop"; require "gyre/log/client/spools"; require "#{ROOT}/test/oracle/log/records"
      Gyre::Loop.require_native("the log client")
      trap(:XFSZ, "IGNORE")
      Process.setrlimit(:FSIZE, 1000)
      spool = Gyre::Log::Spools.create(ARGV[0], "app", Gyre::Log::Identity.fresh, limit: 100_000, record_limit: 5000)
      make = ->(number) { Gyre::Log::Records.encode(seq: number, time_us: 1, service: "app", severity: "info", message: "x" * 67) }
      number = 0
      begin
        loop { spool.append(make.(number += 1)) }
      rescue SystemCallError => error
        print error.class, " ", number, " ", spool.bytesize
      end
    RUBY
    output = ruby("-e", code, @folder)
    assert_equal ["Errno::EFBIG 10 900", ""], [output.out, output.err]
    adopted, = orphans
    assert_equal (1..9).to_a, read_all(adopted).first
    adopted.close
  end

  def test_an_owner_that_deletes_and_one_that_adopts_do_not_meet
    lock = File.join(spool.tap(&:close).path, "lock")
    taken = File.open(lock, File::RDWR)
    File.delete(lock)
    assert_empty orphans
    assert taken.flock(File::LOCK_EX | File::LOCK_NB)
    taken.close
  end

  def test_the_folder_is_for_its_owner_alone
    folder = File.join(@folder, "a", "b")
    spool = Gyre::Log::Spools.create(folder, "app", IDENTITY, **options)
    spool.append(record(1))
    assert_equal [0o700, 0o700, 0o600, 0o600],
      [folder, spool.path, segment_path(spool), File.join(spool.path, "lock")].map { |path| File.stat(path).mode & 0o777 }
    spool.close
  end

  def test_names_tell_services_apart
    name = Gyre::Log::Spools.method(:name_for)
    assert_equal "app@h%3A%3A1@6766@2", name.call("app", "h::1", 6766, 2)
    texts = [["a/b", "h", 1, 2], ["a%2Fb", "h", 1, 2], ["a@h", 1, 2], ["ü" * 100, "h", 1], ["ü" * 101, "h", 1], ["ü" * 102, "h", 1]]
    names = texts.map { |parts| name.call(*parts) }
    assert_equal names.uniq, names
    assert(names.all? { |text| text.bytesize <= 200 && !text.include?("/") && text.ascii_only? })
  end

  def test_where_a_folder_cannot_be_made
    File.write(File.join(@folder, "file"), "")
    assert_raises(SystemCallError) { Gyre::Log::Spools.create(File.join(@folder, "file"), "app", IDENTITY, **options) }
  end

  def test_what_killed_processes_left_of_their_folders_is_removed
    Dir.mkdir(File.join(@folder, "app.#{ID}")) # killed while it deleted it
    unfinished = File.join(@folder, ".#{OTHER.client_id}.123") # killed while it made it
    Dir.mkdir(unfinished)
    File.utime(Time.now, Time.now - 3600, unfinished)
    Dir.mkdir(File.join(@folder, ".#{ID}.124")) # a process is making it
    assert_empty orphans
    assert_equal [".#{ID}.124"], Dir.children(@folder)
  end
end
