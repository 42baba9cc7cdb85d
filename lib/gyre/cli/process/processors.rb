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

      # `groups` is the mount point of control groups, `mine` lists this process's (cgroups(7)).
      def available(groups: GROUPS, mine: "/proc/self/cgroup")
        [Etc.nprocessors, quota(groups, mine)&.ceil].compact.min.clamp(1, nil)
      end

      # The lowest quota from this process's group to the root, in processors; nil without one.
      def quota(groups, mine)
        paths = File.readlines(mine, chomp: true).to_h { |line| line.split(":", 3).values_at(1, 2) }
        version2 = ancestors(paths[""]).map { |path| ratio(*read("#{groups}#{path}/cpu.max")&.split) }
        name = paths.keys.find { |each| each.split(",").include?("cpu") }
        version1 = name ? ancestors(paths[name]).map { |path| version1(groups, path) } : []
        (version2 + version1).compact.min
      rescue SystemCallError
        nil # not Linux
      end

      def version1(groups, path)
        folder = "#{groups}/cpu#{path}"
        ratio(read("#{folder}/cpu.cfs_quota_us"), read("#{folder}/cpu.cfs_period_us"))
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
      private_class_method :quota, :version1, :ancestors, :ratio, :read
    end
  end
end
