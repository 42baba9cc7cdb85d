# frozen_string_literal: true

# Repeats a failed operation with growing pauses until it works: of a log's output, of broadcasts.
# Reports the first failure and the recovery. Drops nothing.

require "gyre/clock"
require "gyre/net/backoff"

module Gyre
  # @api private
  class Retry
    FIRST_PAUSE_S = 0.05
    LONGEST_PAUSE_S = 2.0
    KEPT = "nothing is dropped"
    NO_ROOM = [Errno::ENOSPC, Errno::EDQUOT, Errno::EFBIG].freeze

    attr_reader :trouble # what fails now, for the status

    # `meanwhile` is the report's text about the bytes that wait.
    def initialize(name, report: nil, longest_pause_s: LONGEST_PAUSE_S, meanwhile: KEPT)
      @name = name
      @report = report
      @longest_pause_s = longest_pause_s
      @meanwhile = meanwhile
      @trouble = nil
      @depth = 0
      @once = false
    end

    # Raises errors at once during the block.
    def without_retrying
      @once = true
      yield
    ensure
      @once = false
    end

    # Repeats the block while it raises one of `errors`. If blocks are nested, the outermost
    # block reports the recovery.
    def until_success(doing, *errors, meanwhile: @meanwhile)
      errors = [SystemCallError] if errors.empty?
      backoff = Backoff.new(FIRST_PAUSE_S, @longest_pause_s)
      @depth += 1
      begin
        value = yield
      rescue Errno::EINTR
        retry
      rescue *errors => error
        raise if @once

        failed(doing, error, meanwhile)
        sleep(backoff.failed)
        retry
      end
      succeeded if @trouble && @depth == 1
      value
    ensure
      @depth -= 1
    end

    def report(message) = @report&.call("#{@name}: #{message}")

    def failed(doing, error, meanwhile = @meanwhile)
      text = "#{NO_ROOM.include?(error.class) ? "disk full, " : ""}cannot #{doing}: #{plain(error)}"
      return if text == @trouble

      @since ||= Clock.now
      @trouble = text
      report("#{text}; #{meanwhile}, it is tried again")
    end

    private

    def succeeded
      full = @trouble.start_with?("disk full")
      @trouble = nil
      report("#{full ? "there is room again" : "it works again"} after #{(Clock.now - @since).round(1)} s")
      @since = nil
    end

    # Removes Ruby's addition to the system's message ("@ io_writev - <STDOUT>").
    def plain(error) = error.is_a?(SystemCallError) ? SystemCallError.new(nil, error.errno).message : error.message
  end
end
