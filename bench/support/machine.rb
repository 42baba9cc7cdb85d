# frozen_string_literal: true

# What machine and which versions a result was measured on, as Markdown lines for the results files.
# Never names the host, a path or a user.

require_relative "setup"

module Bench
  # Facts about this machine.
  module Machine
    module_function

    def cores
      File.read("/proc/cpuinfo").scan(/^processor/).size
    end

    def description
      model = File.read("/proc/cpuinfo")[/^model name\s*:\s*(.+)/, 1] || "unknown CPU"
      memory = File.read("/proc/meminfo")[/^MemTotal:\s*(\d+)/, 1].to_i / 1024.0 / 1024
      kernel = File.read("/proc/sys/kernel/osrelease").strip
      format("%s, %d cores, %.0f GB, Linux %s", model, cores, memory, kernel)
    end

    def load_average
      File.read("/proc/loadavg").to_f
    end

    def ruby
      "Ruby #{RUBY_VERSION}p#{RUBY_PATCHLEVEL}#{' + YJIT' unless Setup.yjit_environment.empty?}"
    end

    def gyre
      version = File.read(File.join(ROOT, "lib/gyre/version.rb"))[/VERSION = "([^"]+)"/, 1]
      commit = IO.popen(%w[git rev-parse --short HEAD], chdir: ROOT, err: File::NULL, &:read).strip
      commit.empty? ? version : "#{version} (#{commit})"
    rescue Errno::ENOENT
      "unknown"
    end
  end
end
