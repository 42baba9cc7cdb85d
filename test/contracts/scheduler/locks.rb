# frozen_string_literal: true

# Locks of files that fibers hold across waits.
require "tempfile"
require "timeout"

module SchedulerContract
  # File#flock.
  module Locks
    def test_a_lock_that_is_held_across_a_wait_stops_no_other_fiber
      with_lock_file do |path|
        holders = most = done = 0
        with_scheduler do |scheduler|
          5.times do
            scheduler.spawn do
              File.open(path) do |file|
                assert_equal 0, file.flock(File::LOCK_EX)
                most = [most, holders += 1].max
                sleep 0.002
                holders -= 1
                done += 1
              end
            end
          end
        end
        assert_equal [1, 5], [most, done]
      end
    end

    def test_a_wait_for_a_lock_that_is_given_up_never_takes_it
      with_lock_file do |path|
        in_fiber do
          with_open(File.open(path), File.open(path), File.open(path)) do |holder, late, other|
            assert_equal 0, holder.flock(File::LOCK_EX)
            3.times { assert_raises(Timeout::Error) { Timeout.timeout(0.005) { late.flock(File::LOCK_EX) } } }
            assert_equal 0, holder.flock(File::LOCK_UN)
            sleep 0.005
            assert_equal 0, other.flock(File::LOCK_EX | File::LOCK_NB)
            refute late.flock(File::LOCK_EX | File::LOCK_NB)
          end
        end
      end
    end

    def test_shared_locks_are_held_together
      with_lock_file do |path|
        in_fiber do |scheduler|
          with_open(File.open(path), File.open(path), File.open(path)) do |one, two, writer|
            [one, two].each { |file| assert_equal 0, file.flock(File::LOCK_SH) }
            locked = nil
            scheduler.spawn { locked = writer.flock(File::LOCK_EX) }
            one.flock(File::LOCK_UN)
            scheduler.yield
            assert_nil locked
            two.flock(File::LOCK_UN)
            eventually { scheduler.yield.then { locked } }
            assert_equal 0, locked
          end
        end
      end
    end

    private

    def with_lock_file
      Tempfile.create { |file| yield file.path }
    end
  end
end
