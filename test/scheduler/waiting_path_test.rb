# frozen_string_literal: true

# FIFOs that are opened by their path, each way that Ruby has, with both ends in one loop.
require "test_helper"
require "support/engines"
require "gyre"
require "pathname"
require "tmpdir"

GyreTest::Engines.test_case("WaitingPathTest", backends: GyreTest::Engines::ALL) do
  def test_a_fifo_read_by_file_open
    check_fifo
  end

  def test_a_fifo_read_by_file_new
    check_fifo(reader: ->(path) { File.new(path).then { |file| file.read.tap { file.close } } })
  end

  def test_a_fifo_read_by_open
    check_fifo(reader: ->(path) { Object.new.instance_eval { open(path, "r", &:read) } })
  end

  def test_a_fifo_read_by_file_read
    check_fifo(reader: ->(path) { File.read(path) })
  end

  def test_a_fifo_read_by_file_binread
    check_fifo(reader: ->(path) { File.binread(path) })
  end

  def test_a_fifo_read_by_file_readlines
    check_fifo(reader: ->(path) { File.readlines(path).join })
  end

  def test_a_fifo_read_by_file_foreach
    check_fifo(reader: ->(path) { [].tap { |lines| File.foreach(path, chomp: false) { |line| lines << line } }.join })
  end

  def test_a_fifo_read_by_io_sysopen
    check_fifo(reader: ->(path) { IO.for_fd(IO.sysopen(path)).then { |io| io.read.tap { io.close } } })
  end

  def test_a_fifo_read_by_pathname_read
    check_fifo(reader: ->(path) { Pathname(path).read })
  end

  def test_a_fifo_read_by_io_reopen
    check_fifo(reader: ->(path) { File.open(File::NULL) { |file| file.reopen(path, "r").read } })
  end

  def test_a_fifo_written_by_file_open
    check_fifo
  end

  def test_a_fifo_written_by_file_write
    check_fifo(writer: ->(path) { File.write(path, "two\nlines\n") })
  end

  def test_a_fifo_written_by_file_binwrite
    check_fifo(writer: ->(path) { File.binwrite(path, "two\nlines\n") })
  end

  def check_fifo(reader: ->(path) { File.open(path, &:read) },
                 writer: ->(path) { File.open(path, "w") { |file| file.write("two\nlines\n") } })
    assert_equal "two\nlines\n", through_fifo(reader, writer)
  end

  def test_an_open_that_waits_is_stopped
    with_fifo do |path|
      [-> { File.open(path) }, -> { File.read(path) }, -> { File.open(path, "w") }].each do |open|
        assert_raises(Gyre::TimeoutError) { Gyre.run { |task| task.with_timeout(0.01, &open) } }
      end
    end
  end

  def test_other_files_are_opened_at_once
    Dir.mktmpdir do |folder|
      path = File.join(folder, "file")
      order = []
      Gyre.run do |task|
        task.async do
          File.open(path, "w") { order << :opened }
          IO.sysopen(path).then { |fd| IO.for_fd(fd).close }
          order << :again
        end
        order << :other
        File.write(path, "one\n")
        File.open(path, "a") { |file| file.puts("two") }
        assert_equal [%W[one\n two\n], "one"], [File.foreach(path).to_a, File.read(path, 3)]
      end
      assert_equal %i[opened again other], order
    end
  end

  def test_refusals_are_those_of_ruby
    Gyre.run do
      assert_raises(Errno::ENOENT) { File.open("/nowhere/at/all") }
      assert_raises(ArgumentError) { File.open("a\0b") }
      assert_raises(TypeError) { File.open(nil) }
    end
  end

  def test_files_are_read_and_written_in_each_ractor
    output = ruby("-W:no-experimental", "-e", <<~'RUBY', __FILE__)
      require "gyre"
      read = Ractor.new(ARGV[0]) do |path|
        ways = [-> { IO.read(path) }, -> { File.binread(path) }, -> { File.readlines(path).join }, -> { File.foreach(path).to_a.join },
                -> { open(path, &:read) }]
        sizes = ways.flat_map { |way| [way.call, Gyre.run { way.call }] }.map(&:bytesize)
        [*sizes, File.write(File::NULL, "x"), IO.binwrite(File::NULL, "x"), IO.for_fd(IO.sysopen(path)).close].uniq
      end
      p read.respond_to?(:value) ? read.value : read.take
    RUBY
    assert_equal "[#{File.size(__FILE__)}, 1, nil]\n", output.out, output.err
  end

  private

  def through_fifo(read, write)
    with_fifo do |path|
      Gyre.run do |task|
        reading = task.async { read.call(path) }
        task.async { write.call(path) }
        reading.wait
      end
    end
  end

  def with_fifo
    Dir.mktmpdir do |folder|
      path = File.join(folder, "fifo")
      File.mkfifo(path)
      yield path
    end
  end
end
