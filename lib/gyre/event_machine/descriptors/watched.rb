# frozen_string_literal: true

# An IO that the program itself reads and writes (EventMachine.watch). Only reports readiness.

module Gyre
  module EventMachine
    module Descriptors
      class Watched < Descriptor
        attr_reader :io

        def initialize(reactor, io)
          @io = io
          @readable = @writable = false
          super(reactor)
        end

        def notify_readable? = @readable

        def notify_readable=(mode)
          @readable = mode ? true : false
          watch
        end

        def notify_writable? = @writable

        def notify_writable=(mode)
          @writable = mode ? true : false
          await_room if @writable && !over?
        end

        def readable
          return if @paused || !@readable

          @active_at = Clock.now
          guarded { @connection.__send__(:notify_readable) }
        end

        def writable
          return if !@writable || @ending

          guarded { @connection.__send__(:notify_writable) }
        ensure
          await_room if @writable && !over?
        end

        def detach
          raise "the watch has ended" if over?

          close
          @io.fileno unless @io.closed?
        end

        def disown; end # the program's

        def send_data(_) = over? ? -1 : 0
        def unsent_bytes = 0

        private

        def room_calls_back? = true
        def reads? = @readable && !@connection.nil?

        def shut; end # the program's
      end
    end
  end
end
