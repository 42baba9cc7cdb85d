# frozen_string_literal: true

# Gyre::Log::Rotation: when, under which names, how many; and what is left when the process is
# killed in the middle.

require "test_helper"
require "tmpdir"
require "gyre"
require "gyre/log/output"

class LogRotationTest < Minitest::Test
  Rotation = Gyre::Log::Rotation

  # The process is killed here.
  class Killed < Exception; end # rubocop:disable Lint/InheritException

  def setup
    @folder = Dir.mktmpdir
    @path = File.join(@folder, "a.log")
    @said = []
    @time = Time.new(2026, 11, 21, 19, 30, 0)
    @outputs = []
  end

  def teardown
    @outputs.each(&:close)
    FileUtils.remove_entry(@folder)
  end

  def test_by_size_with_numbers
    output = open_output(size: 10, keep: 3)
    ("a".."f").each { |name| output.write("#{name * 6}\n") }
    assert_equal({ "a.log" => "ffffff\n", "a.log.1" => "eeeeee\n", "a.log.2" => "dddddd\n", "a.log.3" => "cccccc\n" }, files)
  end

  def test_modes_survive
    File.write(@path, "", perm: 0o600)
    output = open_output(size: 10, compress: "gzip")
    ("a".."c").each { |name| output.write("#{name * 6}\n", { "ab" * 16 => name.ord }).then { output.sync } }
    modes = Dir.children(@folder).to_h { |name| [name, File.stat(File.join(@folder, name)).mode & 0o777] }
    assert_equal({ "a.log" => 0o600, "a.log.1.gz" => 0o600, "a.log.2.gz" => 0o600, "a.log.journal" => 0o600 }, modes)
  end

  def test_a_batch_is_never_divided_and_an_empty_file_never_rotated
    output = open_output(size: 10)
    output.write("#{"x" * 100}\n")
    assert_equal ["a.log"], files.keys
    output.write("y\n")
    assert_equal({ "a.log" => "y\n", "a.log.1" => "#{"x" * 100}\n" }, files)
  end

  def test_by_time_with_the_clock
    output = open_output(every: "hour")
    output.write("one\n")
    File.utime(@time, @time, @path)
    @time += 29 * 60
    output.write("two\n")
    File.utime(@time, @time, @path)
    assert_equal ["a.log"], files.keys
    @time += 60
    output.write("three\n")
    assert_equal({ "a.log" => "three\n", "a.log.1" => "one\ntwo\n" }, files)
  end

  def test_a_day_begins_at_local_midnight
    output = open_output(every: "day")
    output.write("one\n")
    evening = Time.new(2026, 11, 21, 23, 59, 59)
    File.utime(evening, evening, @path)
    @time = evening + 1
    output.write("two\n")
    assert_equal({ "a.log" => "two\n", "a.log.1" => "one\n" }, files)
  end

  def test_a_week_begins_on_monday
    output = open_output(every: "week")
    output.write("one\n")
    saturday = Time.new(2026, 11, 21, 12)
    File.utime(saturday, saturday, @path)
    @time = Time.new(2026, 11, 22, 23, 59, 59)
    output.write("two\n")
    File.utime(@time, @time, @path)
    assert_equal ["a.log"], files.keys
    @time += 1
    output.write("three\n")
    assert_equal({ "a.log" => "three\n", "a.log.1" => "one\ntwo\n" }, files)
  end

  def test_packed_in_a_task_beside
    Gyre.run do
      output = open_output(size: 3, compress: "gzip", keep: 2)
      %w[one two three].each do |line|
        output.write("#{line}\n")
        eventually { !output.instance_variable_get(:@rotation).instance_variable_get(:@packing) }
      end
      assert_equal({ "a.log" => "three\n", "a.log.1.gz" => "two\n", "a.log.2.gz" => "one\n" }, files)
    end
  end

  def test_while_one_is_packed_the_file_is_not_rotated_again
    Gyre.run do
      output = open_output(size: 3, compress: "gzip")
      rotation = output.instance_variable_get(:@rotation)
      gate = Gyre::Promise.new
      rotation.define_singleton_method(:pack) { |path| gate.wait && super(path) }
      %w[one two three].each { |line| output.write("#{line}\n") }
      assert_equal({ "a.log" => "two\nthree\n", "a.log.1" => "one\n" }, files)
      gate.resolve(true)
      eventually { files.key?("a.log.1.gz") }
      eventually { !rotation.instance_variable_get(:@packing) }
      output.write("four\n")
      eventually { files.key?("a.log.2.gz") && files.key?("a.log.1.gz") && !files.key?("a.log.1") }
      assert_equal({ "a.log" => "four\n", "a.log.1.gz" => "two\nthree\n", "a.log.2.gz" => "one\n" }, files)
    end
  end

  def test_acknowledged_clients_are_known_after_a_rotation
    id = "a" * 32
    output = open_output(size: 3)
    4.times { |seq| output.write("line #{seq}\n", { id => seq + 1 }) }
    output.sync
    output.close
    assert_equal({ id => 4 }, open_output(size: 3).stored)
  end

  def test_a_rotation_that_fails_holds_up_no_line
    output = open_output(size: 3)
    output.instance_variable_get(:@rotation).define_singleton_method(:rename) { |*| raise Errno::EACCES }
    %w[one two three].each { |line| output.write("#{line}\n") }
    assert_equal({ "a.log" => "one\ntwo\nthree\n" }, files)
    assert_equal 1, @said.size
    assert_match(/cannot rotate: Permission denied; lines go on into the old file/, @said.first)
    assert_nil output.trouble
  end

  def test_files_of_others_are_left_alone
    %w[a.log.bak a.log.1.txt a.log.20261121 b.log.1 a.log.journal2 a.log.99.gz].each { |name| File.write(File.join(@folder, name), "") }
    before = Dir.children(@folder)
    output = open_output(size: 3, keep: 100)
    %w[one two].each { |line| output.write("#{line}\n") }
    assert_equal (before + %w[a.log a.log.1 a.log.journal]).sort, Dir.children(@folder).sort
  end

  def test_a_link_stays_one
    real = File.join(@folder, "real.log")
    File.symlink(real, @path)
    output = Gyre::Log::Output.open({ logfile: @path, rotate: { size: 3 } }).tap { |each| @outputs << each }
    %w[one two].each { |line| output.write("#{line}\n") }
    assert File.symlink?(@path)
    assert_equal ["two\n", "one\n"], [File.read(@path), File.read("#{real}.1")]
  end

  # Each rename, unlink and packing in turn is the one before which the process is killed; nothing
  # may be missing afterwards, and the next process has to tidy up.
  def test_killed_at_each_step_nothing_is_lost
    [{ compress: "gzip" }, {}].each do |settings|
      steps = (0..).find { |step| !killed_at?(step, settings) }
      assert_equal 3 + (settings[:compress] ? 1 : 0), steps
    end
  end

  private

  def open_output(**settings)
    rotation = Rotation.from(settings, @path, report: @said.method(:push))
    Gyre::Log::Output::FileOutput.new(@path, rotation: rotation, report: @said.method(:push), clock: -> { @time }).tap { |output| @outputs << output }
  end

  def files
    names = Dir.children(@folder).reject { |name| name.end_with?(".journal") }.sort
    names.each_with_object({}) do |name, found|
      path = File.join(@folder, name)
      found[name] = name.end_with?(".gz") ? Zlib::GzipReader.open(path, &:read) : File.binread(path)
    rescue Errno::ENOENT
      next # renamed since it was listed
    end
  rescue Errno::ENOENT
    retry # it got another name since it was listed
  end

  def killed_at?(step, settings)
    FileUtils.rm(Dir[File.join(@folder, "*")])
    output = open_output(size: 3, keep: 10, **settings)
    lines = %W[one\n two\n three\n]
    lines.each { |line| output.write(line) }
    kill_at(output.instance_variable_get(:@rotation), step)
    survived = output.write("four\n")
    survived = true
  rescue Killed
    survived = false
  ensure
    assert_whole(output, settings, lines, step, survived)
    return !survived # rubocop:disable Lint/EnsureReturn -- Killed is over
  end

  def kill_at(rotation, step)
    left = step
    %i[rename remove pack].each do |name|
      rotation.define_singleton_method(name) do |*arguments|
        raise Killed if (left -= 1).negative?

        super(*arguments)
      end
    end
  end

  def assert_whole(output, settings, lines, step, survived)
    %i[@file @journal].each { |name| output.instance_variable_get(name).close }
    lines += ["four\n"] if survived
    File.binwrite("#{@path}.1.gz.part", "half of it") if settings[:compress]
    assert_equal lines.sort, contents, "killed at step #{step} with #{settings}"
    again = open_output(size: 3, keep: 10, **settings)
    again.write("five\n")
    assert_equal (lines + ["five\n"]).sort, contents, "after it was killed at step #{step} with #{settings}"
    refute(files.keys.any? { |name| name.end_with?(".part") })
    again.close
  end

  def contents
    files.reject { |name, _| name.end_with?(".part") }.values.flat_map(&:lines).sort
  end
end
