# frozen_string_literal: true

# All of Gyre's traps, as a process has one handler per signal: for Loop#watch_signal, Gyre.signals
# and Gyre::Signals.handle. Restores the program's handler after the last. Takes no lock in a trap.

module Gyre
  class Loop
    module Traps
      # A trapped signal: process, listeners (replaced, as the trap reads them), Gyre's handler, the
      # former one.
      Trapped = Struct.new(:name, :pid, :listeners, :handler, :former)
      Listener = Struct.new(:number, :moved, :block)
      private_constant :Trapped, :Listener

      @trapped = {} # signal number => Trapped
      @lock = Mutex.new

      class << self
        # Passes each signal to all listeners, instead of its usual effect. The block runs in the
        # trap: no locks, no waits. `moved` is called in a daemon.
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

        # May be called again.
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

        def any?
          @trapped.each_value.any? { |trapped| trapped.pid == Process.pid }
        end

        # For Process.daemon; `from`: the calling process.
        def process_move(from)
          listeners = @trapped.values.select { |trapped| trapped.pid == from }.flat_map(&:listeners)
          listeners.each { |listener| listener.moved&.call }
          @lock.synchronize { @trapped.each_value { |trapped| trapped.pid = Process.pid if trapped.pid == from } }
        end

        private

        def set(name, listener, inherited)
          trapped = Trapped.new(name, Process.pid, [listener])
          trapped.handler = proc { arrived(trapped) }
          former = Signal.trap(name, trapped.handler)
          trapped.former = inherited && former.equal?(inherited.handler) ? inherited.former : former
          trapped
        end

        # In the trap. A forked child has no listeners: the signal has its former effect.
        def arrived(trapped)
          if trapped.pid == Process.pid
            trapped.listeners.each { |listener| listener.block.call }
          else
            restore(trapped)
            Process.kill(trapped.name, Process.pid)
          end
        end

        # Signal.trap returns nil for a handler not set by Ruby, which restores the system's.
        def restore(trapped) = Signal.trap(trapped.name, trapped.former || "SYSTEM_DEFAULT")
      end
    end
  end
end
