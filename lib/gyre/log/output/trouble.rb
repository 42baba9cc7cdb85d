# frozen_string_literal: true

# What stands between an output and its bytes: a full disk, a peer that is away. Used by every output around each system call
# that may fail: repeats it until it works, with pauses that grow to a bound, and reports the trouble once when it comes and
# once when it is over. It never gives up and never drops anything: the server reads less while bytes wait.

require "gyre/clock"

module Gyre
  module Log
    module Output
      # The present trouble of one output.
      class Trouble
        FIRST_PAUSE_S = 0.05
        LONGEST_PAUSE_S = 2.0
        KEPT = "nothing is dropped"
        NO_ROOM = [Errno::ENOSPC, Errno::EDQUOT, Errno::EFBIG].freeze

        # @return [String, nil] what is wrong now, for the status
        attr_reader :text

        # @param name [String] the output's, as it stands in messages
        # @param report [#call, nil] is given each message, a String
        # @param longest_pause_s [Numeric] between two tries
        def initialize(name, report: nil, longest_pause_s: LONGEST_PAUSE_S)
          @name = name
          @report = report
          @longest_pause_s = longest_pause_s
          @text = nil
          @depth = 0
          @impatient = false
        end

        # During the block errors are raised at once: the caller can do without.
        # @return the block's value
        def impatient
          @impatient = true
          yield
        ensure
          @impatient = false
        end

        # Runs the block again and again until it raises none of these errors. Blocks may be nested: it works again when the outermost
        # one has ended.
        # @param doing [String] what is tried, for the message
        # @param errors [Array<Class>]
        # @param meanwhile [String] what becomes of the bytes, for the message
        # @return the block's value
        def overcome(doing, *errors, meanwhile: KEPT)
          errors = [SystemCallError] if errors.empty?
          pause_s = FIRST_PAUSE_S
          @depth += 1
          begin
            value = yield
          rescue Errno::EINTR
            retry
          rescue *errors => error
            raise if @impatient

            meet(doing, error, meanwhile)
            sleep([pause_s, @longest_pause_s].min)
            pause_s *= 2
            retry
          end
          over if @text && @depth == 1
          value
        ensure
          @depth -= 1
        end

        # A message about the output, apart from any trouble.
        # @param message [String]
        def say(message)
          @report&.call("#{@name}: #{message}")
        end

        # Something failed and is going to be tried again; the same thing is reported once.
        # @param doing [String]
        # @param error [Exception]
        def meet(doing, error, meanwhile)
          text = "#{NO_ROOM.include?(error.class) ? "disk full, " : ""}cannot #{doing}: #{plain(error)}"
          return if text == @text

          @since ||= Clock.now
          @text = text
          say("#{text}; #{meanwhile}, it is tried again")
        end

        # It works again.
        def over
          return unless @text

          full = @text.start_with?("disk full")
          @text = nil
          say("#{full ? "there is room again" : "it works again"} after #{(Clock.now - @since).round(1)} s")
          @since = nil
        end

        private

        # Without what Ruby adds behind the system's own words ("@ io_writev - <STDOUT>").
        def plain(error)
          error.is_a?(SystemCallError) ? SystemCallError.new(nil, error.errno).message : error.message
        end
      end
    end
  end
end
