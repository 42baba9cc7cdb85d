# frozen_string_literal: true

# The number of processors that this process may use, for `--workers auto`. On Linux counts the
# processors that the process is bound to, up to the quota of its control group (as in a container).
# Starts nothing.

require "etc"

module Gyre
  module CLI
    module Processors
      GROUPS = "/sys/fs/cgroup"
      private_constant :GROUPS

      module_function

      # `groups` is the mount point of control groups, `mine` lists this process's (cgroups(7),
      # version 2).
      def available(groups: GROUPS, mine: "/proc/self/cgroup")
        [Etc.nprocessors, quota(groups, mine)&.ceil].compact.min.clamp(1, nil)
      end

      # The lowest quota from this process's group to the root, in processors; nil without one.
      def quota(groups, mine)
        path = File.read(mine)[/^0::(.*)/, 1]
        ancestors(path).filter_map { |group| ratio(*read("#{groups}#{group}/cpu.max")&.split) }.min
      rescue SystemCallError
        nil # not Linux
      end

      # In a container the path is often the host's, while the group itself is at the root.
      def ancestors(path)
        parts = path.to_s.split("/").reject(&:empty?)
        (0..parts.size).map { |count| parts.first(count).map { |part| "/#{part}" }.join }
      end

      def ratio(limit = nil, period = nil)
        limit.to_f / period.to_f if limit.to_i.positive? && period.to_i.positive?
      end

      def read(path)
        File.read(path)
      rescue SystemCallError
        nil # no such group or controller
      end
      private_class_method :quota, :ancestors, :ratio, :read
    end
  end
end
