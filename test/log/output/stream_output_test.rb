# frozen_string_literal: true

# Gyre::Log::Output::StreamOutput: pipes and terminals, slow ones, full ones, and ones whose
# reader is gone.

require "test_helper"
require "io/nonblock"
require "pty"
require "tmpdir"
require "gyre"
require "gyre/log/output/stream_output"

class LogOutputStreamTest < Minitest::Test
  StreamOutput = Gyre::Log::Output::StreamOutput
  LARGE = Array.new(50_000) { |index| "line #{index}\n" }.join.freeze

  def setup
    @said = []
  end

  def test_a_full_pipe_is_waited_for_and_the_loop_goes_on
    [true, false].each do |nonblocking|
      reader, writer = IO.pipe
      writer.nonblock = nonblocking
      read = +""
      Gyre.run do |task|
        task.async do
          sleep 0.01 # it is full by now
          read << reader.readpartial(1000) until read.bytesize >= LARGE.bytesize
        end
        stream(writer).write(LARGE)
      end
      assert_equal LARGE, read
      assert_equal nonblocking, writer.nonblock?, "its mode belongs to others too"
    ensure
      [reader, writer].each(&:close)
    end
  end

  def test_a_pipe_that_is_not_read_does_not_keep_the_loop_awake
    reader, writer = IO.pipe
    Gyre.run do |task|
      writing = task.async { stream(writer).write(LARGE) }
      eventually { StringIO.new.tap { |out| Gyre.print_hierarchy(out) }.string.lines.grep_v(/ of CPU, /).grep(/log sync/).empty? }
      refute writing.finished?
      writing.stop
    end
  ensure
    [reader, writer].each(&:close)
  end

  def test_a_terminal
    need_terminal
    PTY.open do |controller, terminal|
      read = +""
      Gyre.run do |task|
        task.async { read << controller.readpartial(1000) until read.end_with?("line 4999\r\n") }
        stream(terminal).write(LARGE.lines.first(5000).join)
      end
      assert_equal LARGE.lines.first(5000).join.gsub("\n", "\r\n"), read
    end
  end

  def test_a_pipe_without_a_reader_keeps_its_bytes_and_tells_once
    reader, writer = IO.pipe
    reader.close
    output = stream(writer)
    Gyre.run do |task|
      writing = task.async { output.write("one\n") }
      eventually { output.trouble }
      assert_equal "cannot write: Broken pipe", output.trouble
      refute writing.finished?
      writing.stop
    end
    assert_equal ["a stream: cannot write: Broken pipe; nothing is dropped, it is tried again"], @said
  ensure
    writer.close
  end

  def test_a_named_pipe_waits_for_its_reader_and_survives_it
    Dir.mktmpdir do |folder|
      path = File.join(folder, "pipe")
      File.mkfifo(path)
      output = StreamOutput.open(path)
      output.write("one\n")
      assert_equal "one\n", File.open(path, "rb") { |reader| reader.readpartial(100) }
      output.write("two\n")
      assert_equal "two\n", File.open(path, "rb") { |reader| reader.readpartial(100) }
      output.close
    end
  end

  # /dev/full is always full; a link that is changed to a device with room shows the way back.
  def test_a_full_device_is_reported
    output = StreamOutput.open("/dev/full", report: @said.method(:push), longest_pause_s: 0.01)
    io = output.instance_variable_get(:@io)
    Gyre.run do |task|
      task.async do
        sleep 0.001 until output.trouble
        io.reopen("/dev/null", "w")
      end
      output.write("one\n")
    end
    assert_match(%r{/dev/full: disk full, cannot write: No space left on device}, @said[0])
    assert_match(%r{/dev/full: there is room again}, @said[1])
    assert_nil output.trouble
    output.close
  end

  private

  def stream(io)
    StreamOutput.new(io, name: "a stream", report: @said.method(:push), longest_pause_s: 0.01)
  end
end
