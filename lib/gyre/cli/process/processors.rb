# frozen_string_literal: true

# Processors for `--workers auto`: on Linux those that the process is bound to, up to its control
# group's quota (as in a container).

require "etc"

module Gyre
  module CLI
    module Processors
      GROUPS = "/sys/fs/cgroup"

      module_function

      # `groups`: mount point of control groups; `mine`: this process's (cgroups(7), version 2).
      def available(groups: GROUPS, mine: "/proc/self/cgroup") = [Etc.nprocessors, quota(groups, mine)&.ceil].compact.min.clamp(1, nil)

      # Returns the lowest quota from this group to the root, in processors, or nil.
      def quota(groups, mine)
        path = File.read(mine)[/^0::(.*)/, 1]
        ancestors(path).filter_map { |group| ratio(*read("#{groups}#{group}/cpu.max")&.split) }.min
      rescue SystemCallError
        nil # not Linux
      end

      # In a container the path may be the host's, the group at the root.
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
