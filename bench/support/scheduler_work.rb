# frozen_string_literal: true

# The micro-benchmarks of bench/scheduler, written once against Ruby's own interface:
# Fiber.schedule, sleep, IO, Queue, Timeout. Each does COUNT operations inside a running scheduler,
# waits for their end, and raises when a result is wrong.

require "socket"
require "timeout"

module Bench
  # One public method for each benchmark; called in a fiber of the scheduler under test.
  module SchedulerWork
    # Name → [method, operations measured, what one operation is]
    ALL = {
      "ping-pong" => [:ping_pong, 40_000, "a byte there and back between two fibers over a socket pair"],
      "pipes" => [:pipes, 200_000, "64 bytes written by one fiber and read by another over a pipe"],
      "sleep0" => [:sleep_zero, 400_000, "a sleep(0) among 100 fibers"],
      "timers" => [:timers, 20_000, "a fiber that sleeps 1 to 100 ms, 20,000 of them"],
      "spawn" => [:spawn_empty, 200_000, "Fiber.schedule of an empty block, until it has run: a fiber that ends with it"],
      "task" => [:task_empty, 200_000, "the same by the scheduler's own method, which may use a fiber again: spawn or async, else Fiber.schedule"],
      "queue" => [:queue, 200_000, "a Queue hand-off from one fiber to another that waits for it"],
      "timeout" => [:timeout, 30_000, "ping-pong with Timeout.timeout around the read"]
    }.freeze

    module_function

    def ping_pong(count)
      near, far = UNIXSocket.pair
      echo(far)
      count.times do
        near.write("x")
        expect("x", near.readpartial(1))
      end
    ensure
      near.close
    end

    def pipes(count)
      reader, writer = IO.pipe
      message = "m" * 64
      Fiber.schedule do
        count.times { writer.write(message) }
        writer.close
      end
      got = 0
      while (text = read_some(reader))
        got += text.bytesize
      end
      expect(count * 64, got)
    ensure
      reader.close
    end

    def sleep_zero(count)
      fibers = 100
      done = Thread::Queue.new
      fibers.times do
        Fiber.schedule do
          (count / fibers).times { sleep(0) }
          done << true
        end
      end
      fibers.times { done.pop }
    end

    def timers(count)
      random = Random.new(20_000)
      done = Thread::Queue.new
      early = 0
      count.times do
        duration_s = random.rand(0.001..0.1)
        Fiber.schedule do
          begin_s = now
          sleep(duration_s)
          early += 1 if now - begin_s < duration_s - 0.0005
          done << true
        end
      end
      count.times { done.pop }
      expect(0, early)
    end

    def spawn_empty(count)
      in_batches(count) { |job| Fiber.schedule(&job) }
    end

    def task_empty(count)
      scheduler = Fiber.scheduler
      method = %i[spawn async].find { |name| scheduler.respond_to?(name) } or return spawn_empty(count)
      in_batches(count) { |job| scheduler.public_send(method, &job) }
    end

    # Since some schedulers make the fiber at once and run it later, and fibers are limited by
    # memory maps. The last one of a batch reports through a Queue: waiting with sleep(0) takes
    # carbon_fiber 0.2 exponentially longer each time.
    def in_batches(count)
      ran = 0
      done = Thread::Queue.new
      job = proc { ran += 1 }
      last = proc { done << (ran += 1) }
      (count / 100).times do
        99.times { yield job }
        yield last
        done.pop
      end
      expect(count, ran)
    end

    def queue(count)
      there = Thread::Queue.new
      back = Thread::Queue.new
      Fiber.schedule do
        while (value = there.pop)
          back << value + 1
        end
      end
      (count / 2).times do |number|
        there << number
        expect(number + 1, back.pop)
      end
    ensure
      there.close
    end

    def timeout(count)
      near, far = UNIXSocket.pair
      echo(far)
      count.times do
        near.write("x")
        expect("x", Timeout.timeout(5) { near.readpartial(1) })
      end
    ensure
      near.close
    end

    # A fiber that sends back whatever comes, until the other end is closed.
    def echo(socket)
      Fiber.schedule do
        while (text = read_some(socket))
          socket.write(text)
        end
        socket.close
      end
    end

    def read_some(io)
      io.readpartial(64)
    rescue EOFError
      nil
    end

    def expect(wanted, got)
      raise "expected #{wanted.inspect}, got #{got.inspect}" unless wanted == got
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
