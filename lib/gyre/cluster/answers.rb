# frozen_string_literal: true

# A worker's answers to questions of the supervisor (Crew#ask). A question's number keeps a late
# answer from counting for a later question.
#
#   {"ask": [number, name, argument]}, {"forget": number} ─► worker
#   {"answer": [number, {"value": …} or {"error": why there is none}]} ─► supervisor

require "gyre/cluster/link"
require "gyre/errors"
require "gyre/task"

module Gyre
  module Cluster
    class Answers
      # `handlers`: by a question's name; called in a task with the argument and with `wait`, which
      # sleeps for some seconds, and returns at once when the worker's run ends.
      def initialize(link, handlers)
        @link = link
        @handlers = handlers
        @running = {} # number of a question => the task that works on it
        @rest = []
      end

      # Lines to be sent after the worker's run.
      attr_reader :rest

      # Works on a question in a task, and sends its answer.
      def begin(number, name, argument)
        @running[number] = true
        task = Task.current.async(name, transient: true) { answer(number, name, argument) }
        @running[number] &&= task
      end

      # Ends the work on a question that is not to be answered any more.
      def give_up(number)
        task = @running.delete(number)
        task.stop.wait if task.is_a?(Task)
      end

      private

      # A task that is stopped sends nothing itself, for it must not wait again.
      def answer(number, name, argument)
        stop = nil
        wait = lambda do |seconds|
          sleep(seconds)
        rescue Stop => stop
          nil # raised again below
        end
        line = line(number, make(name, argument, wait))
        return unless @running.delete(number)

        stop ? @rest << line : @link.write(line)
      rescue LinkError
        nil # the supervisor has gone
      ensure
        raise stop if stop
      end

      def make(name, argument, wait)
        handler = @handlers[name] or return { error: "knows no #{name}" }
        { value: handler.call(argument, wait) }
      rescue StandardError => error
        { error: error.is_a?(Error) ? error.message : "failed: #{error.message} (#{error.class})" }
      end

      def line(number, answer)
        line = Link.line(answer: [number, answer])
        line.bytesize > Link::MESSAGE_BYTES_LIMIT ? Link.line(answer: [number, { error: "has too much to answer" }]) : line
      end
    end
  end
end
