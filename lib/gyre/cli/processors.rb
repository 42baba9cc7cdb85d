# frozen_string_literal: true

# How many processors this process may use: what `--workers auto` means. On Linux those that the
# process is bound to, and not more than the quota of its control group, which is what a container
# gets. It starts nothing.

require "etc"

module Gyre
  module CLI
    # A function without state.
    module Processors
      GROUPS = "/sys/fs/cgroup"
      private_constant :GROUPS

      module_function

      # @param groups [String] where the control groups are mounted
      # @param mine [String] which of them this process is in (cgroups(7))
      # @return [Integer] 1 or more
      def available(groups: GROUPS, mine: "/proc/self/cgroup")
        [Etc.nprocessors, quota(groups, mine)&.ceil].compact.min.clamp(1, nil)
      end

      # The lowest one on the way from this process's group to the root.
      #
      # @return [Float, nil] processors; nil without a quota
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

      # In a container the path is often that of the host, while the group itself is at the root.
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
        nil # no such group, or no such controller
      end
      private_class_method :quota, :version1, :ancestors, :ratio, :read
    end
  end
end
