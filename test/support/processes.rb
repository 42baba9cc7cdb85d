# frozen_string_literal: true

# What /proc tells of processes, which may end while it is read. Linux only.
module GyreTest
  # Questions about a process by its id.
  module Processes
    module_function

    # Of any of its threads; a list that changes while it is read may lack some (proc(5)), so it is
    # read until it is the same twice.
    def children_of(pid)
      lists = Enumerator.produce { Dir["/proc/#{pid}/task/*/children"].flat_map { |path| listed(path) } }
      lists.each_cons(2).find { |one, other| one == other }.first
    end

    def ended?(pid)
      File.read("/proc/#{pid}/stat")[/\) (\S)/, 1] == "Z"
    rescue SystemCallError
      true
    end

    # Returns when it stands still: what it had asked the system for, as a connection, comes first.
    def stop(pid)
      Process.kill(:STOP, pid)
      sleep 0.001 until File.read("/proc/#{pid}/stat")[/\) (\S)/, 1] == "T"
    end

    # Returns whether the process has a handler for it.
    def catches?(pid, signal)
      caught = File.read("/proc/#{pid}/status")[/^SigCgt:\s*(\h+)/, 1].hex
      caught[Signal.list.fetch(signal.to_s) - 1] == 1
    end

    def listed(path)
      File.read(path).split.map(&:to_i)
    rescue SystemCallError
      [] # its thread has ended; another one has its children
    end
    private_class_method :listed
  end
end
