# frozen_string_literal: true

# CPU time and memory of a process and all its descendants. Used by the benchmarks for
# servers that may fork (nginx, Falcon). Only reads.

module Bench
  # A process tree named by its root.
  class ProcessTree
    def initialize(pid)
      @pid = pid
    end

    # Returns the root and all its living descendants.
    def pids
      children = Hash.new { |hash, key| hash[key] = [] }
      Dir.children("/proc").grep(/\A\d+\z/).each do |name|
        fields = stat(name)
        children[fields[1].to_i] << name.to_i if fields
      end
      found = [@pid]
      found.each { |pid| found.concat(children[pid]) }
    end

    # To the nanosecond, where /proc counts hundredths: by the processes' clocks
    # (clock_getcpuclockid(3)).
    def cpu_s
      pids.sum do |pid|
        Process.clock_gettime((~pid << 3) | 2)
      rescue Errno::EINVAL
        0 # it has just ended
      end
    end

    def rss_kb
      pids.sum { |pid| read("/proc/#{pid}/status")[/^VmRSS:\s*(\d+)/, 1].to_i }
    end

    def threads
      pids.sum { |pid| read("/proc/#{pid}/status")[/^Threads:\s*(\d+)/, 1].to_i }
    end

    def peak_rss_kb
      pids.sum { |pid| read("/proc/#{pid}/status")[/^VmHWM:\s*(\d+)/, 1].to_i }
    end

    def pss_kb
      pids.sum { |pid| read("/proc/#{pid}/smaps_rollup")[/^Pss:\s*(\d+)/, 1].to_i }
    end

    private

    # Fields of /proc/PID/stat after the program's name, which may hold spaces: [state, ppid, ...]
    def stat(pid)
      text = read("/proc/#{pid}/stat")
      text.empty? ? nil : text[(text.rindex(")") + 2)..].split
    end

    def read(path)
      File.read(path)
    rescue Errno::ENOENT, Errno::ESRCH, Errno::EACCES
      "" # it has just ended
    end
  end
end
