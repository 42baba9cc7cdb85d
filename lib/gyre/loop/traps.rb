# frozen_string_literal: true

# Shares a signal's handler, of which a process has only one, among Gyre's listeners. Called by
# Loop#watch_signal, Gyre.signals and Gyre::Signals.handle. Restores the program's handler after the
# last listener. Takes no lock in a trap.

module Gyre
  class Loop
    module Traps
      # A trapped signal. `pid`: the process that trapped it. `listeners`: replaced instead of
      # changed, as the trap reads the list. `handler`: Gyre's. `former`: the handler before.
      Trapped = Struct.new(:name, :pid, :listeners, :handler, :former)
      Listener = Struct.new(:number, :moved, :block)
      private_constant :Trapped, :Listener

      @trapped = {} # signal number => Trapped
      @lock = Mutex.new

      class << self
        # Adds a listener. The signal calls all listeners instead of having its usual effect. The
        # block runs in the trap: it may neither lock nor wait. `moved` is called in a daemon.
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

        def any? = @trapped.each_value.any? { |trapped| trapped.pid == Process.pid }

        # Called in a daemon. `from`: the process that called Process.daemon.
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

        # Called in the trap. A forked child has no listeners; its signal has the former effect.
        def arrived(trapped)
          if trapped.pid == Process.pid
            trapped.listeners.each { |listener| listener.block.call }
          else
            restore(trapped)
            Process.kill(trapped.name, Process.pid)
          end
        end

        # If Signal.trap returned nil, the former handler was not Ruby's: restores the system's.
        def restore(trapped) = Signal.trap(trapped.name, trapped.former || "SYSTEM_DEFAULT")
      end
    end
  end
end
