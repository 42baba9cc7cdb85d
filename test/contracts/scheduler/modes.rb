# frozen_string_literal: true

# Descriptors whose mode, or whose meaning, changes under a scheduler that has used them already.
require "io/nonblock"
require "socket"
require "tempfile"

module SchedulerContract
  # Blocking mode, reopened IOs.
  module Modes
    # More than a pipe holds.
    LONG = 300_000

    def test_a_write_to_a_pipe_that_was_set_to_blocking_does_not_stop_others
      needs_write_hook
      with_used_pipe do |reader, writer, scheduler|
        writer.nonblock = false
        assert_others_run_while_written(reader, writer, scheduler)
      end
    end

    def test_a_write_to_an_io_that_was_reopened_onto_a_blocking_pipe_does_not_stop_others
      needs_write_hook
      with_used_pipe do |reader, writer, scheduler|
        with_pipe do |other_reader, other_writer|
          other_writer.nonblock = false
          writer.reopen(other_writer)
          other_writer.close
          assert_others_run_while_written(other_reader, writer, scheduler)
          assert_predicate reader, :eof?
        end
      end
    end

    # Named pipes refuse RWF_NOWAIT, as all pipes do on older kernels.
    def test_a_write_to_a_named_pipe_in_blocking_mode_does_not_stop_others
      needs_write_hook
      Dir.mktmpdir do |folder|
        path = File.join(folder, "pipe")
        File.mkfifo(path)
        reader = Thread.new { File.open(path, "r") }
        with_open(File.open(path, "w"), reader.value) do |writer, other|
          writer.nonblock = false
          other.nonblock = true
          in_fiber { |scheduler| assert_others_run_while_written(other, writer, scheduler) }
        end
      end
    end

    def test_a_read_of_a_pipe_that_was_set_to_blocking_does_not_stop_others
      with_used_pipe do |reader, writer, scheduler|
        writer.write "ab"
        reader.nonblock = false
        read = +""
        scheduler.spawn { 3.times { read << reader.readpartial(1) } }
        5.times { scheduler.yield }
        assert_equal "ab", read
        writer.write "c"
        eventually { scheduler.yield.then { read == "abc" } }
      end
    end

    def test_an_io_that_was_a_pipe_and_is_a_file_is_read_and_written_as_a_file
      Tempfile.create do |file|
        file.write("x" * 200_000)
        file.flush
        with_used_pipe do |reader, writer|
          reader.reopen(file.path, "r")
          assert_equal 200_000, reader.read.bytesize
          writer.reopen(file.path, "w")
          assert_equal 100_000, writer.write("y" * 100_000)
          writer.flush
          assert_equal 100_000, File.size(file.path)
        end
      end
    end

    def test_an_io_that_was_a_pipe_and_is_a_socket_is_waited_for
      with_used_pipe do |reader, _, scheduler|
        with_open(*UNIXSocket.pair) do |near, far|
          reader.reopen(near)
          scheduler.spawn { sleep(0.001).then { far.write "one" }.then { sleep(0.001) }.then { far.write "two" } }
          assert_equal "onetwo", reader.read(6)
        end
      end
    end

    private

    # Before 3.3.1 Ruby writes by itself, and waits in the call.
    def needs_write_hook
      skip "this Ruby has no sound hook for writes" unless Gyre::Scheduler.new(backend).tap(&:close).respond_to?(:io_write)
    end

    # The scheduler has it.
    def with_used_pipe
      with_pipe do |reader, writer|
        in_fiber do |scheduler|
          3.times { writer.write("x").then { reader.readpartial(1) } }
          yield reader, writer, scheduler
        end
      end
    end

    # Nothing reads before another fiber has run, so a write that stops the thread never ends.
    def assert_others_run_while_written(reader, writer, scheduler)
      written = nil
      scheduler.spawn { written = writer.write("y" * LONG) }
      assert_nil written
      rest = LONG
      rest -= reader.readpartial(65_536).bytesize while rest.positive?
      eventually { scheduler.yield.then { written } }
      assert_equal LONG, written
    end
  end
end
