# frozen_string_literal: true

# IO.copy_stream between what may wait and what does not, in tasks that have to go on beside it.
require "test_helper"
require "support/engines"
require "gyre"
require "socket"
require "stringio"
require "tempfile"

GyreTest::Engines.test_case("CopyStreamTest", backends: GyreTest::Engines::ALL) do
  bytes = Random.new(5).bytes(400_000).freeze # more than a socket or pipe holds
  define_method(:bytes) { bytes }
  private :bytes

  def test_a_file_into_a_socket_and_a_pipe_that_a_task_of_the_same_loop_reads
    with_file do |file|
      [UNIXSocket.pair, IO.pipe].each do |reader, writer|
        copied = run_beside(-> { reader.binmode.read }) { IO.copy_stream(file.path, writer).tap { writer.close } }
        assert [bytes, bytes.bytesize] == copied
        reader.close
      end
    end
  end

  def test_one_socket_into_another_and_into_an_object
    [UNIXSocket.pair, [StringIO.new("".b)]].each do |writer, reader|
      source, sender = UNIXSocket.pair
      read = Gyre.run do |task|
        reading = task.async { reader&.binmode&.read }
        task.async { sender.write(bytes).then { sender.close } }
        assert_equal bytes.bytesize, IO.copy_stream(source, writer)
        writer.close if reader
        reading.wait || writer.string
      end
      assert bytes == read.b
      [source, reader].compact.each(&:close)
    end
  end

  def test_a_pipe_into_a_file
    Tempfile.create do |file|
      reader, writer = IO.pipe
      Gyre.run do |task|
        task.async { writer.write(bytes).then { writer.close } }
        assert_equal bytes.bytesize, IO.copy_stream(reader, file.path)
      end
      assert bytes == File.binread(file.path)
      reader.close
    end
  end

  def test_a_part_of_a_file_and_bytes_that_are_buffered_already
    with_file do |file|
      reader, writer = IO.pipe
      Gyre.run do
        assert_equal 5, IO.copy_stream(file, writer, 5, 7)
        assert_equal bytes[0, 3], file.read(3)
        assert_equal 4, IO.copy_stream(file, writer, 4)
        writer.close
        assert_equal bytes[7, 5] + bytes[3, 4], reader.binmode.read
      end
      reader.close
    end
  end

  def test_a_copy_that_waits_is_stopped
    reader, writer = IO.pipe
    Gyre.run do |task|
      with_file do |file|
        assert_raises(Gyre::TimeoutError) { task.with_timeout(0.01) { IO.copy_stream(file, writer) } }
        assert_raises(Gyre::TimeoutError) { task.with_timeout(0.01) { IO.copy_stream(IO.pipe.first, StringIO.new) } }
      end
    end
    [reader, writer].each(&:close)
    GC.start
  end

  def test_one_file_into_another
    with_file do |file|
      Tempfile.create do |copy|
        assert_equal bytes.bytesize, Gyre.run { IO.copy_stream(file, copy) }
        assert bytes == File.binread(copy.path)
      end
    end
  end

  private

  def run_beside(other)
    Gyre.run do |task|
      beside = task.async { other.call }
      own = yield
      [beside.wait, own]
    end
  end

  def with_file
    Tempfile.create do |file|
      file.binmode.write(bytes)
      file.rewind
      yield file
    end
  end
end
