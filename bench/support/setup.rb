# frozen_string_literal: true

# Gets what the benchmarks need: Debian's packages, the peers' gems, the compiled load client.
# Everything but the packages goes below tmp/bench in the checkout. Quick when all is there; used by
# bench/http, scheduler and profile.

require "English"
require "fileutils"
require "json"
require "rbconfig"

module Bench
  ROOT = File.expand_path("../..", __dir__)
  WORK = File.join(ROOT, "tmp/bench")

  # What runs where: the measured process on one core, the load on another.
  SERVER_CORE = 0
  LOAD_CORE = 1

  # One answer for every problem that the user can solve: printed without a backtrace by the
  # commands.
  class Problem < StandardError; end

  # Installs and finds programs and gems.
  module Setup
    GEM = /\A\s*gem "([\w-]+)"/.freeze

    # The program, or the header in C, that each Debian package is needed for.
    PACKAGES = { "nginx" => "nginx-light", "wrk" => "wrk", "curl" => "curl", "h2load" => "nghttp2-client", "taskset" => "util-linux", "cc" => "gcc",
                 "openssl" => "openssl", "perf" => "linux-perf", "rsyslogd" => "rsyslog",
                 "dnsperf" => "dnsperf", "dnsmasq" => "dnsmasq-base", "nsd" => "nsd", "unbound" => "unbound", "unshare" => "util-linux",
                 "memcached" => "memcached", "node" => "nodejs", "npm" => "npm", "libmemcached/memcached.h" => "libmemcached-dev" }.freeze

    module_function

    def programs(*programs)
      missing = programs.reject { |name| program(name) }
      return if missing.empty?

      packages = missing.map { |name| PACKAGES.fetch(name) }
      unless Process.uid.zero? && program("apt-get")
        raise Problem, "missing: #{missing.join(', ')}. On Debian: apt-get install #{packages.join(' ')}"
      end
      # RUNLEVEL=1 keeps the packages from starting their services: only the benchmark's own nginx
      # is wanted.
      say "installing #{packages.join(', ')}"
      environment = { "DEBIAN_FRONTEND" => "noninteractive", "RUNLEVEL" => "1" }
      run(environment, "apt-get", "update", "-qq")
      run(environment, "apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages)
    end

    # Returns the path of an executable, or of a header.
    def program(name)
      return ["/usr/include", "/usr/local/include"].map { |folder| File.join(folder, name) }.find { |path| File.exist?(path) } if name.end_with?(".h")

      folders = ENV.fetch("PATH", "").split(File::PATH_SEPARATOR) + %w[/usr/sbin /sbin]
      folders.map { |folder| File.join(folder, name) }.find { |path| File.executable?(path) && !File.directory?(path) }
    end

    # Installs the peers' gems (newest that fit this Ruby) unless they are there. One that does not
    # install here is left out, aloud.
    def gems(wanted = File.read(File.join(ROOT, "bench/gems.rb")))
      FileUtils.mkdir_p(gem_folder)
      File.write(File.join(WORK, ".gitignore"), "*\n")
      source = "source #{Gem.sources.first.uri.to_s.dump}\n#{wanted}" # from where RubyGems gets them
      changed = write(gemfile, source.lines.reject { |line| left_out.key?(line[GEM, 1]) }.join)
      left_out.each { |gem, reason| say "WITHOUT #{gem}: #{reason}" }
      return if !changed && system(gem_environment, bundle, "check", out: File::NULL, err: File::NULL)

      say "installing the peers' gems"
      run(gem_environment, bundle, "install", "--quiet")
    rescue Problem => e
      gem = culprit(e.message)
      raise if gem.nil? || left_out.key?(gem)

      leave_out(gem, "does not install on Ruby #{RUBY_VERSION}")
      retry
    end

    def left_out
      File.exist?(left_out_file) ? JSON.parse(File.read(left_out_file)) : {}
    end

    # Returns the gem of ours that was wanted when it failed.
    def culprit(output) = output[/^In gems\.rb:\n\s+([\w-]+)/, 1]

    def leave_out(gem, reason) = File.write(left_out_file, JSON.generate(left_out.merge(gem => reason)))
    def left_out_file = File.join(gem_folder, "left-out.json")

    # Returns whether the file had another text.
    def write(path, text)
      return false if File.exist?(path) && File.read(path) == text

      File.write(path, text)
      true
    end

    # Environment in which `ruby -rbundler/setup` finds the peers' gems.
    def gem_environment
      { "BUNDLE_GEMFILE" => gemfile, "BUNDLE_PATH" => File.join(gem_folder, "installed"), "RUBYOPT" => nil,
        "BUNDLE_APP_CONFIG" => File.join(gem_folder, ".bundle"), "BUNDLE_FROZEN" => nil, "RUBYLIB" => nil }
    end

    # Returns a command line that runs a gem's executable, or a script when it has a folder, with
    # the peers' gems and Gyre's lib in reach.
    def ruby_command(script, *arguments)
      script = Dir[File.join(gem_folder, "installed/ruby/*/bin", script)].first || script unless script.include?("/")
      [RbConfig.ruby, "-I", File.join(ROOT, "lib"), "-rbundler/setup", script, *arguments]
    end

    def gem_versions
      @gem_versions ||= File.read(gemfile.sub(/\.rb\z/, ".locked"))
                            .scan(/^    ([\w-]+) \((\d[^-)]*)/).to_h
    end

    # Returns the path of the load client for bench/http.
    def connections
      compiled("connections")
    end

    # Compiles a program of the benchmarks, bench/support/NAME.c, when it changed.
    def compiled(name, *libraries)
      source = File.join(__dir__, "#{name}.c")
      target = File.join(WORK, name)
      unless File.exist?(target) && File.mtime(target) > File.mtime(source)
        FileUtils.mkdir_p(WORK)
        run({}, "cc", "-O3", "-Wall", "-o", target, source, *libraries)
      end
      target
    end

    # Prints a warning when the figures of this Ruby would not be the ones that count.
    def check_ruby
      warn "bench: Ruby #{RUBY_VERSION}: the figures that count are those of Ruby 4.0 and 3.4" if RUBY_VERSION < "3.4"
      warn "bench: this Ruby has no YJIT" unless yjit?
    end

    # Returns whether this Ruby was built with YJIT.
    def yjit?
      system(RbConfig.ruby, "--yjit", "-e", "exit RubyVM::YJIT.enabled?", out: File::NULL, err: File::NULL) || false
    end

    # YJIT for whatever is measured; not below 3.2, where it takes 256 MB at start.
    def yjit_environment
      RUBY_VERSION >= "3.2" && yjit? ? { "RUBY_YJIT_ENABLE" => "1" } : {}
    end

    def say(text)
      warn "bench: #{text}"
    end

    def gem_folder
      File.join(WORK, "gems-#{RUBY_VERSION}")
    end

    def gemfile
      File.join(gem_folder, "gems.rb")
    end

    def bundle
      File.join(RbConfig::CONFIG["bindir"], "bundle")
    end

    def run(environment, *command)
      output = IO.popen([environment, *command, { err: %i[child out] }], &:read)
      return if $CHILD_STATUS.success?

      raise Problem, "#{command.join(' ')}: failed\n#{output.lines.last(20).join}"
    end
  end
end
