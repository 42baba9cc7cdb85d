# frozen_string_literal: true

# Compiles the plain C tests of test/c: our C files that need no Ruby, with a program that drives
# them. Used by the tests, which also run them by it (PlainC::Assertions), by `rake test:memcheck`
# and by the differential fuzzer.
require "digest"
require "fileutils"
require "rbconfig"
require "tmpdir"

module GyreTest
  # The programs, and how they are built.
  module PlainC
    ROOT = File.expand_path("../..", __dir__)
    # Each program's sources; in test/c there may be headers beside them.
    PROGRAMS = {
      "http1_parser_test" => %w[test/c/http1_exercise.c] +
                             %w[head h1/parser h1/fields h1/chunked].map { |name| "ext/gyre/http/#{name}.c" },
      "log_ingest_test" => %w[test/c/log_exercise.c] +
                           %w[crc32 decoder frame hub line record session sink syslog
                              time].map { |name| "ext/gyre/log/log_#{name}.c" },
      "http2_session_test" => %w[h2/session h2/lines h2/head admission statistics head]
                              .map { |name| "ext/gyre/http/#{name}.c" } + %w[ext/gyre/loop/timers.c ext/gyre/net/transport.c],
      "http_admission_test" => %w[ext/gyre/http/admission.c ext/gyre/http/statistics.c ext/gyre/loop/timers.c],
      "backend_test" => %w[backends backend_epoll backend_io_uring backend_iocp backend_kqueue forks wakeup]
                        .map { |name| "ext/gyre/loop/#{name}.c" },
      "proxy_protocol_test" => %w[ext/gyre/net/proxy_protocol.c],
      "shares_test" => %w[ext/gyre/net/shares.c],
      "memcached_wire_test" => %w[test/c/memcached_exercise.c ext/gyre/memcached/memcached_wire.c],
      "dns_wire_test" => %w[test/c/dns_exercise.c ext/gyre/dns/wire.c],
      "websocket_input_test" => %w[input utf8 deflate].map { |name| "ext/gyre/websocket/#{name}.c" },
      "deferred_test" => %w[ext/gyre/loop/deferred.c],
      "reports_test" => %w[ext/gyre/loop/reports.c],
      "timers_test" => %w[ext/gyre/loop/timers.c],
      "busy_poll_test" => [], # a header
      "lag_test" => %w[ext/gyre/loop/lag.c],
      "libkqueue_faults" => [], # nothing of ours
      "backend_io_uring_test" => %w[ext/gyre/loop/forks.c ext/gyre/loop/wakeup.c] # and backend_io_uring.c, which it includes
    }.freeze
    # Those that depend on what extconf.rb found.
    PLATFORM = %w[backend_test backend_io_uring_test reports_test shares_test http2_session_test websocket_input_test libkqueue_faults].freeze

    FLAGS = %w[-std=gnu11 -g -Wall -Wextra -Wno-unused-parameter -Werror -Iext/gyre -Itest/c].freeze
    PLAIN = %w[-O2].freeze
    # How long a program stays that was built.
    KEPT_S = 24 * 3600
    SANITIZED = %w[-O1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer].freeze

    # For test classes.
    module Assertions
      # Builds a program and runs it; skips where this machine cannot build it.
      def assert_plain_c(name, flags, *arguments, within_s: 60)
        Dir.mktmpdir("gyre-plain-c-") do |folder|
          program = PlainC.build(name, folder, flags) or skip "no C compiler that can do it, or no extension"
          output = run_program({ "LD_PRELOAD" => nil }, program, *arguments, within_s: within_s)
          assert output.status.success?, "#{output.out}#{output.err}"
          output
        end
      end
    end

    class << self
      # What was built once of the same sources is taken again: it does not depend on the Ruby.
      def build(name, folder, flags)
        return unless compiler && able?(folder, flags)

        found = PLATFORM.include?(name) ? platform_flags : [] or return
        command = [compiler, *FLAGS, *flags, "test/c/#{name}.c", *PROGRAMS.fetch(name), *found, "-lpthread"]
        built = File.join(ROOT, "tmp", "plain_c", "#{name}-#{digest(command)}")
        compile(command, built) unless kept?(built)
        File.join(folder, name).tap { |program| FileUtils.ln_sf(built, program) }
      end

      # Returns what extconf.rb found, as the extension's Makefile has it, without Ruby's own part;
      # nil where the extension was not built.
      def platform_flags
        makefile = File.join(ROOT, "tmp", RUBY_PLATFORM, "#{RUBY_ENGINE}-#{RbConfig::CONFIG["ruby_version"]}", "Makefile")
        return unless File.exist?(makefile)

        values = File.readlines(makefile).grep(/\A(?:CPPFLAGS|INCFLAGS|CFLAGS|LIBPATH|DLDFLAGS|ldflags|LIBS) *=/).join
        values.scan(%r{(?<=[ =])(?:-D(?:GYRE_)?HAVE_\w+|-I/[^ $]*kqueue\S*|-l(?:kqueue|uring|nghttp2|z)\b|-L/\S+|-Wl,-rpath,\S+)}).uniq
      end

      # Others may rename or delete files there meanwhile.
      def delete_old(folder)
        Dir[File.join(folder, "*")].each do |path|
          FileUtils.rm_f(path) if File.mtime(path) < Time.now - KEPT_S
        rescue Errno::ENOENT
          next
        end
      end

      private

      # Whether it is there. Then it stays for as long again: others delete what is old.
      def kept?(built)
        File.utime(nil, nil, built).positive?
      rescue Errno::ENOENT
        false
      end

      # Whole or not at all: others may look for it meanwhile. Those of sources that are no more go.
      def compile(command, built)
        FileUtils.mkdir_p(File.dirname(built))
        delete_old(File.dirname(built))
        words = IO.popen([*command, "-o", "#{built}.#{Process.pid}"], chdir: ROOT, err: %i[child out], &:read)
        $?.success? ? File.rename("#{built}.#{Process.pid}", built) : raise(words)
      end

      # Of all that may be in the program.
      def digest(command)
        sources = Dir[File.join(ROOT, "{ext/gyre,test/c}/**/*.{c,h}")].sort.map { |path| File.binread(path) }
        Digest::SHA256.hexdigest([`#{compiler} --version`, *command, *sources].join("\0"))[0, 16]
      end

      # The C compiler of this machine.
      def compiler
        @compiler ||= [ENV["CC"], "cc", "gcc", "clang"].compact.find do |name|
          system(name, "--version", out: File::NULL, err: File::NULL)
        end
      end

      def able?(folder, flags)
        empty = File.join(folder, "empty.c")
        File.write(empty, "int main(void) { return 0; }\n")
        system(compiler, *flags, empty, "-o", File.join(folder, "empty"), out: File::NULL, err: File::NULL)
      end
    end
  end
end
