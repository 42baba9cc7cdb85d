# frozen_string_literal: true

# The file that holds a server's pid, from the time when the server listens until it ends. USR2
# changes nothing: the new program has the same pid. Replaces the file of a dead process.

require "etc"
require "gyre/errors"
require "gyre/cluster/process_number"
require "gyre/whole_file"

module Gyre
  module CLI
    class Pidfile
      # Seconds by which the clocks of files and processes may differ.
      CLOCK_DIFFERENCE_S = 2

      attr_reader :path

      def initialize(path)
        @path = File.expand_path(path)
      end

      def check
        other = owner
        return if other.nil? || other == Process.pid || !living?(other)

        raise StartError, "#{@path}: process #{other} has it and runs. Stop it with `kill #{other}`, name another file with --pidfile, " \
                          "or remove the file if that process is another program"
      end

      # True if the file has this process's pid already, as after USR2.
      def own? = owner == Process.pid

      # Raises StartError if another living process owns the file, or on a write error.
      def write
        check
        replace
        self
      end

      # Removes the file if it has this process's pid; empties it if this user may not remove it.
      def remove
        File.delete(@path) if owner == Process.pid
      rescue Errno::ENOENT
        nil # another process removed it
      rescue Errno::EACCES, Errno::EPERM
        empty
      end

      private

      def replace
        WholeFile.replace(@path, "#{Process.pid}\n")
      rescue SystemCallError => error
        raise StartError, "#{@path}: the process id cannot be written: #{error.class.new.message.downcase}"
      end

      def empty
        File.truncate(@path, 0)
      rescue SystemCallError
        nil # found stale later
      end

      def owner
        number = File.read(@path).to_i
        number if number.positive?
      rescue Errno::ENOENT
        nil
      end

      def living?(pid) = Cluster::ProcessNumber.taken?(pid) && !younger?(pid)

      # True if the process is younger than the file, as after a reboot; false if /proc is missing.
      def younger?(pid)
        ticks = File.read("/proc/#{pid}/stat")[/.*\) (.*)/m, 1].split[19].to_i # proc(5): starttime, in ticks since boot
        booted = File.read("/proc/stat")[/^btime (\d+)/, 1].to_i
        booted + (ticks.to_f / Etc.sysconf(Etc::SC_CLK_TCK)) > File.mtime(@path).to_f + CLOCK_DIFFERENCE_S
      rescue SystemCallError, NoMethodError
        false
      end
    end
  end
end
