# frozen_string_literal: true

# The one place where Gyre traps signals, for a signal has one handler in a process:
# Loop#watch_signal, Gyre.signals and Gyre::Signals.handle all listen here, in any order, and the
# program's own handler comes back after the last of them. Nothing here takes a lock in a trap.

module Gyre
  class Loop
    module Traps
      # A signal that is trapped: by which process, the listeners (never changed in place, as the
      # trap reads it), our handler, and the one that was there before.
      Trapped = Struct.new(:name, :pid, :listeners, :handler, :former)
      # A listener. Each has an identity of its own.
      Listener = Struct.new(:number, :moved, :block)
      private_constant :Trapped, :Listener

      @trapped = {} # signal number => Trapped
      @lock = Mutex.new

      class << self
        # Each listener of a signal gets each one; meanwhile it does nothing else.
        # @param name [String, Symbol, Integer] as Signal.trap takes it
        # @param moved [Proc, nil] called in the daemon that this process became; may {remove} the
        #   listener
        # @yield in the trap: it may take no lock and must not wait
        # @return [Listener] for {remove}
        # @raise [ArgumentError, SystemCallError] when it cannot be trapped
        def add(name, moved: nil, &block)
          listener = Listener.new(Signal.list.fetch(name.to_s.sub(/\ASIG/, ""), name), moved, block)
          @lock.synchronize do
            trapped = @trapped[listener.number]
            if trapped && trapped.pid == Process.pid
              trapped.listeners += [listener]
            else
              @trapped[listener.number] = set(name, listener, trapped)
            end
          end
          listener
        end

        # Harmless a second time.
        # @param listener [Listener]
        def remove(listener)
          @lock.synchronize do
            trapped = @trapped[listener.number]
            return unless trapped && trapped.listeners.any? { |other| other.equal?(listener) }

            trapped.listeners = trapped.listeners.reject { |other| other.equal?(listener) }
            return unless trapped.listeners.empty?

            @trapped.delete(listener.number)
            restore(trapped)
          end
        end

        # @return [Boolean] whether any signal has a listener here
        def any?
          @trapped.each_value.any? { |trapped| trapped.pid == Process.pid }
        end

        # For Process.daemon, whose process takes the place of the one that called.
        # @param from [Integer] that one's pid
        def process_move(from)
          listeners = @trapped.values.select { |trapped| trapped.pid == from }.flat_map(&:listeners)
          listeners.each { |listener| listener.moved&.call }
          @lock.synchronize { @trapped.each_value { |trapped| trapped.pid = Process.pid if trapped.pid == from } }
        end

        private

        # @param inherited [Trapped, nil] the parent's, in the child of a fork: its handler is still
        #   set
        def set(name, listener, inherited)
          trapped = Trapped.new(name, Process.pid, [listener])
          trapped.handler = proc { arrived(trapped) }
          former = Signal.trap(name, trapped.handler)
          trapped.former = inherited && former.equal?(inherited.handler) ? inherited.former : former
          trapped
        end

        # In the trap. A child of a fork has the handler and not the listeners: there, a signal does
        # what it did.
        def arrived(trapped)
          if trapped.pid == Process.pid
            trapped.listeners.each { |listener| listener.block.call }
          else
            restore(trapped)
            Process.kill(trapped.name, Process.pid)
          end
        end

        # Signal.trap answers nil where the handler was not set by Ruby; its way back is the
        # system's own.
        def restore(trapped)
          Signal.trap(trapped.name, trapped.former || "SYSTEM_DEFAULT")
        end
      end
    end
  end
end
