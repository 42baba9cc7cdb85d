# frozen_string_literal: true

# Gyre::Log::Output::Spill: batches on disk in order, what a crash leaves of them, and whose they
# may be.

require "test_helper"
require "gyre"
require "gyre/log/output/spill"
require "tmpdir"

class LogOutputSpillTest < Minitest::Test
  Spill = Gyre::Log::Output::Spill
  ID = "a" * 32

  def setup
    @parent = Dir.mktmpdir
    @folder = File.join(@parent, "spill")
    @said = []
    @open = []
  end

  def teardown
    @open.each(&:close)
    FileUtils.rm_rf(@parent)
  end

  def test_batches_come_out_as_they_went_in_also_after_a_new_start
    spill = open_spill
    batches = Array.new(9) { |number| ["#{number}" * 1_000_000, number.odd? ? { ID => number } : {}] }
    batches.each { |batch| assert spill.append(*batch) { false } }
    spill.sync
    assert_equal 3, segments.size
    assert_equal batches.first(5), Array.new(5) { take(spill) }
    assert_equal [2, 7], [segments.size, spill.stored_by(ID)], "what is drained is deleted"
    spill.close
    spill = open_spill
    assert_equal 7, spill.stored_by(ID)
    assert_match(/\d+ bytes of the last run are written first/, @said.last)
    assert spill.append("newer", nil) { false }
    assert_equal [*batches.last(4), ["newer", {}]], Array.new(5) { take(spill) }
    assert_nil spill.first
    assert_equal [0, 0, []], [spill.bytes, spill.stored_by(ID), segments]
  end

  # A process that is killed in the middle of a write.
  def test_a_batch_that_is_cut_off_anywhere_was_never_there
    spill = open_spill
    spill.append("first\n", { ID => 1 }) { false }
    whole = File.size(segments.first)
    spill.append("second\n", { ID => 2 }) { false }
    spill.close
    bytes = File.binread(segments.first)
    path = segments.first
    (0...bytes.bytesize).each do |size|
      File.binwrite(path, bytes.byteslice(0, size))
      spill = open_spill
      assert_equal (size < whole ? [] : ["first\n", { ID => 1 }]), spill.first.to_a.first(2), size
      assert_equal (size < whole ? 0 : 1), spill.stored_by(ID)
      spill.append("next\n", nil) { false }
      last = take(spill) until spill.empty?
      assert_equal ["next\n", {}], last
      spill.close
      FileUtils.rm_f(Dir.glob("#{@folder}/*.damaged"))
    end
  end

  def test_a_damaged_batch_is_put_aside_and_reported
    spill = open_spill
    2.times { |number| spill.append(number.to_s * Spill::SEGMENT_BYTES, nil) { false } }
    spill.close
    path = segments.first
    File.open(path, "r+b") { |file| file.pwrite("x", 1000) }
    spill = open_spill
    assert_equal "1" * Spill::SEGMENT_BYTES, take(spill).first
    assert_predicate spill, :empty?
    assert_match(/bytes of #{path} are damaged, and left out: it is kept as #{path}\.damaged/, @said.first)
    assert_path_exists "#{path}.damaged"
  end

  def test_what_is_given_up_leaves_nothing
    spill = open_spill
    spill.append("one", nil) { false }
    asked = 0
    refute spill.append("two" * 2_000_000, { ID => 1 }) { (asked += 1) > 3 }
    assert_equal 0, spill.stored_by(ID)
    spill.append("three", nil) { false }
    assert_equal %w[one three], [take(spill).first, take(spill).first]
    assert_predicate spill, :empty?
  end

  # The kernel takes the pages for clean after an error: they are written once more.
  def test_after_a_failed_sync_it_is_written_again
    spill = open_spill
    spill.append("one", nil) { false }
    spill.sync
    spill.append("two", nil) { false }
    failures = 2
    written = []
    file = spill.instance_variable_get(:@queue).instance_variable_get(:@segments).last.instance_variable_get(:@file)
    file.define_singleton_method(:fsync) do
      raise Errno::EIO if (failures -= 1) >= 0

      super()
    end
    file.define_singleton_method(:write) { |bytes| written << bytes && super(bytes) }
    spill.sync
    assert_equal 2, written.size
    assert_operator written.first, :end_with?, "two"
    refute_includes written.first, "one"
    assert_match(/cannot sync: Input/, @said[0])
    spill.close
    spill = open_spill
    assert_equal "onetwo", take(spill).first
  end

  def test_older_segments_are_read_while_the_newest_one_is_synced
    spill = open_spill
    5.times { |number| spill.append(number.to_s * 1_000_000, nil) { false } }
    spill.append("newest", nil) { false }
    firsts = []
    file = spill.instance_variable_get(:@queue).instance_variable_get(:@segments).last.instance_variable_get(:@file)
    file.define_singleton_method(:fsync) { (firsts << spill.first) && super() }
    spill.sync
    assert_equal [2, 1], [segments.size, firsts.size]
    assert_equal "0" * 1_000_000, firsts[0]&.first
    assert_empty @said
  end

  def test_it_is_for_its_user_alone
    former = File.umask(0)
    open_spill.append("one", nil) { false }
    assert_equal [0o700, 0o600, 0o600], [@folder, "#{@folder}/lock", *segments].map { |path| File.stat(path).mode & 0o777 }
  ensure
    File.umask(former)
  end

  def test_what_may_be_another_users_is_refused
    open_spill.append("one", nil) { false }
    @open.pop.close
    path = segments.first
    File.chmod(0o666, path)
    assert_refused(/#{path} may be changed by other users/)
    File.chmod(0o600, path)
    File.rename(path, "#{@parent}/elsewhere")
    File.symlink("#{@parent}/elsewhere", path)
    assert_refused(/#{path} is a link/)
    File.delete(path)
    File.chmod(0o770, @folder)
    assert_refused(/#{@folder} may be changed by other users/)
    File.chmod(0o700, @folder)
    File.delete("#{@folder}/lock")
    File.symlink("#{@parent}/lock", "#{@folder}/lock")
    assert_refused(/symbolic links/)
    refute_path_exists "#{@parent}/lock"
    FileUtils.rm_rf(@folder)
    [@parent, "#{@parent}/nowhere"].each do |target|
      File.symlink(target, @folder)
      assert_refused(/is not a folder/)
      File.delete(@folder)
    end
  end

  def test_one_output_has_it_and_lines_of_another_format_are_refused
    spill = open_spill
    spill.append("one", nil) { false }
    assert_refused(/another server writes to #{@folder}/)
    spill.close
    assert_refused(/holds text, not redis/, format: :redis)
    @folder = "#{@parent}/missing/spill"
    assert_refused(/missing.*No such file/)
  end

  private

  def open_spill(format: :text)
    waits = { lock_patience_s: 0, longest_pause_s: 0.001 }
    Spill.new(@folder, format: format, limit: 1 << 30, report: @said.method(:push), **waits).tap { |spill| @open << spill }
  end

  def assert_refused(message, **options)
    assert_match message, assert_raises(ArgumentError) { open_spill(**options) }.message
  end

  def segments
    Dir.glob("#{@folder}/*.records").sort
  end

  # The first batches, drained.
  def take(spill)
    lines, clients, mark = spill.first
    spill.drained(mark)
    [lines, clients]
  end
end
