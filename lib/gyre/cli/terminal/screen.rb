# frozen_string_literal: true

# Draws on a terminal with ANSI escapes, for `gyre top` and `gyre log status`: alternate screen,
# keys, size. Always restores the terminal.

require "io/console"
require "gyre/cli/terminal/paint"

module Gyre
  module CLI
    class Screen
      ENTER = "\e[?1049h\e[?25l\e[?7l"
      LEAVE = "\e[?7h\e[?25h\e[?1049l"
      HOME = "\e[H"
      REST_OF_LINE = "\e[K"
      REST_OF_SCREEN = "\e[J"

      def initialize(input, out)
        @input = input
        @out = out
        @paint = Paint.for(out)
        @waker, @wake = IO.pipe
      end

      def run
        former = trap_signals
        take
        yield self
      ensure
        give_back
        former&.each { |name, handler| Signal.trap(name, handler || "DEFAULT") }
        [@waker, @wake].each(&:close)
      end

      def draw
        height, width = @out.winsize
        height, width = 24, 80 if height.zero? || width.zero? # a terminal that does not tell
        lines = yield(width, height, @paint).first(height)
        # Erased before it is written: after a full line the cursor stands on its last character.
        @out.write(HOME + lines.map { |line| "#{REST_OF_LINE}#{line}" }.join("\r\n") + ("\r\n#{REST_OF_SCREEN}" if lines.size < height).to_s)
        @out.flush
      end

      # Waits, at most `seconds`, for a key, a new size or {#wake}. Returns the key; :quit after q,
      # Ctrl-D or the terminal's end.
      def wait(seconds)
        ready, = IO.select([@input, @waker], nil, nil, seconds)
        return unless ready
        return pressed if ready.include?(@input)

        suspend if ready.include?(@waker) && @waker.read_nonblock(64, exception: false).to_s.include?("z")
      end

      # Ends a {#wait}; any thread or signal handler may call it.
      def wake(what = ".") = @wake.write_nonblock(what, exception: false)

      private

      def trap_signals = { "WINCH" => Signal.trap("WINCH") { wake }, "TSTP" => Signal.trap("TSTP") { wake("z") } }

      def take
        @mode = @input.console_mode
        @input.raw!(intr: true)
        @out.write(ENTER)
      end

      # Restores the terminal, which may have gone.
      def give_back
        return unless @mode

        @out.write(LEAVE)
        @out.flush
      rescue SystemCallError, IOError
        nil
      ensure
        restore_mode
      end

      def restore_mode
        @input.console_mode = @mode if @mode
        @mode = nil
      rescue SystemCallError, IOError
        nil
      end

      # Avoids read_nonblock: the shell would keep the non-blocking mode.
      def pressed
        keys = @input.readpartial(64)
        keys.match?(/[qQ\x03\x04]/) ? :quit : keys
      rescue EOFError, SystemCallError
        :quit
      end

      # Gives the terminal to the shell, after Ctrl-Z.
      def suspend
        give_back
        Process.kill("STOP", Process.pid)
        take
        nil
      end
    end
  end
end
