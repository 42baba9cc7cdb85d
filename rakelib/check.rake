# frozen_string_literal: true

# Slow checks of the C code: the sanitizers, valgrind, and the collector at its most eager. Each
# runs the part of the suite in which C code does the work. The sanitizers' build lives in a copy of
# the checkout, so that it is never loaded by mistake.
require "fileutils"
require "rbconfig"
require_relative "../test/support/parts"
require_relative "../test/support/plain_c"

# The copy of the checkout, and how its programs are started.
module GyreCheck
  # Not worth the sanitizers' time: tests of files, command lines, whole programs, the browser and
  # JRuby; of what needs a bundle that the copy has not; of Ruby code alone; of C programs that have
  # sanitizers of their own; of logs what happens on the disk and in other processes.
  LITTLE_C = %r{\Atest/(?:web/(?!acme/challenge_test)|cluster/|lifetime/|redis/|docs/|bench/|showcase/|frameworks/|rack2/|support/|
                         http/(?!(?:tls|h1/(?:corpus|env|fairness|faults|framing|limits|messages|upgrades)|
                                         h2/(?:conformance|faults|lifetimes|messages|records)|client/h2_(?:connection|faults))_test)|oracle/|
                         conformance/|scheduler/portable/|async/(?!selector_test)|cli/|
                         log/(?!(?:client|client/outbox|ingest|server|output/checksum)_test)|
                         loop/(?:backend_contract|lag|select|timers)_test|
                         (?:tidy|gem|first_minutes|parts|examples|showcase|rackup_handler|jruby|async|portable_engine|lifetime|opentelemetry)_test|
                         websocket/churn_test|net/(?!(?:transport|tls|tls_records|tls_server|faults|datagram|deferred_send)_test))}x
  # What a sample of those leaves out beside it: Ruby above the native engine, C programs that have
  # sanitizers of their own, and tests that ask little but take long.
  NO_SAMPLE = %r{\Atest/(?:broadcast|event_machine|inspection|live|offload|scheduler|sync|task)/|\Atest/memcached/(?!client_test)|
                 \Atest/(?:broadcast|task|testing|deadline|clock|errors|log|web|http|rails)_test|
                 \Atest/dns/(?:programs|rubydns|wikipedia|wire)_test|\Atest/websocket/(?:browser|input|python)_test|
                 \Atest/(?:stress/(?:ractors|interrupt_storm|wake_ups)|log/ingest|sse/client|
                            loop/(?:backends|busy_poll|deferred|io_uring|reports|subclass|timer_heap|wakeup_pipe)|
                            contracts/(?:log_ingest_cases|http_contract_limits)|http/h1/limits)_test}x
  # Minitest's option that leaves the portable engine out, for it is Ruby.
  NATIVE = %w[--exclude /::Select#/].freeze
  # That of a sample: epoll and io_uring, of which HTTP takes the first; TLS is on io_uring. Not the
  # table of forks, whose children begin slowly here.
  TWO_BACKENDS = %w[--exclude
                    /::(?:Select|Poll)#|(?:H2\w*|HTTP1\w*|OverHTTP1|HTTPSServerTest)::IoUring#|SchedulerForkingTest.*child_of_a_task_waits/].freeze
  # Everything goes through C code here, and little depends on the clock: for tools that make it 20
  # times slower.
  MOSTLY_C = %w[test/contracts/http_contract_{messages,rack}_test.rb test/http/h1/{env,messages}_test.rb].freeze
  # Fibers that park, wake, time out and are interrupted, in a pool that uses them again.
  FIBERS = %w[test/stress/{hand_offs,interrupt_storm}_test.rb].freeze
  # Routes, sinks and sessions of the log, which refer to each other.
  LOG = %w[test/contracts/log_ingest_test.rb].freeze
  # Minitest's option for tests under valgrind, which lets no other thread run while one waits in
  # io_uring_enter.
  EPOLL = %w[--exclude /::(?:Select|IoUring|Poll)#/].freeze
  # The part of the scheduler's contract in which no time is measured.
  TIMELESS = %w[test/scheduler_test.rb -n /Scheduler(Descriptors|Interrupts)Test::Epoll/].freeze
  # Fair: else a thread may wait for seconds. An error of memory that was never set is asked for in
  # plain C only. No frame of Ruby's or ours has 64 KB, and the stacks of fibers lie further apart:
  # a move by more changes stacks. Taken for a frame, such a move makes whatever lies between two
  # stacks, blocks of the heap too, look like freed memory.
  VALGRIND = %w[valgrind --fair-sched=yes --undef-value-errors=no --error-limit=no --num-callers=12
                --max-stackframe=65536].freeze
  # Ruby 3.4 loads and runs a parser written in Ruby to underline the place of an error in its
  # message: half a minute of a processor for each such message with the collector at each
  # allocation.
  STRESSED = [RbConfig.ruby, "--disable=error_highlight"].freeze
  # For programs without Ruby, of which everything counts.
  VALGRIND_C = %w[valgrind -q --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite
                  --error-exitcode=9].freeze
  COPIED = "{{lib,ext,exe,test,fuzz,examples,rakelib}/**/*,bin/bundle,Rakefile,Gemfile,gyre.gemspec}"
  # Not of the copy, and of the checkout a build at the same time may just rename it.
  BUILT = %r{/gyre_ext\.}.freeze

  module_function

  # The files that TEST names, or else the given ones.
  def files(*patterns, except: /\A\z/)
    named = ENV["TEST"].to_s.split(/[,\s]+/)
    named.empty? ? Dir[*patterns].grep_v(except).sort : named
  end

  # Copies what a run needs; only what changed, so that make has little to do the second time.
  def copy_checkout(folder)
    copied = ->(root) { Dir.glob(COPIED, base: root).grep_v(BUILT).select { |path| File.file?(File.join(root, path)) } }
    (copied.call(folder) - copied.call(".")).each { |path| File.delete(File.join(folder, path)) }
    copied.call(".").each { |path| copy_file(path, File.join(folder, path)) }
    copy_bundle(folder)
  end

  def copy_file(path, target)
    return if File.exist?(target) && FileUtils.identical?(path, target)

    FileUtils.mkdir_p(File.dirname(target))
    FileUtils.cp(path, target, preserve: true)
  end

  # The copy has the bundle's own files and borrows its gems.
  def copy_bundle(folder)
    bundle = "vendor/bundle/#{GyreBuild.ruby_key}"
    %w[Gemfile Gemfile.lock .bundle/config].each do |name|
      copy_file(File.join(bundle, name), File.join(folder, bundle, name)) if File.exist?(File.join(bundle, name))
    end
    gems = File.join(folder, bundle, "gems")
    FileUtils.ln_sf(File.expand_path("gems", bundle), gems) unless File.symlink?(gems)
  end

  # Leaks are not looked for: Ruby frees nothing at its end. Signals and their stacks are Ruby's.
  def sanitizer_environment
    compiler = RbConfig::CONFIG["CC"].split.first
    libraries = %w[libasan.so libubsan.so].map { |name| `#{compiler} -print-file-name=#{name}`.strip }
    {
      "LD_PRELOAD" => libraries.join(" "),
      "ASAN_OPTIONS" => "detect_leaks=0:detect_stack_use_after_return=0:use_sigaltstack=0:handle_segv=0:" \
                        "handle_sigbus=0:exitcode=99",
      "UBSAN_OPTIONS" => "print_stacktrace=1:exitcode=99",
      "GYRE_TEST_LIMIT_S" => "240"
    }
  end

  # Runs tests under valgrind; ends the task when one fails or valgrind finds something in our code.
  def memcheck(*arguments)
    log = File.join(GyreBuild.root, "tmp", "memcheck.log")
    command = [*VALGRIND, "--log-file=#{log}", RbConfig.ruby]
    passed = GyreSuite.run(*arguments, environment: { "GYRE_TEST_LIMIT_S" => "600" }, command: command)
    errors = memory_errors(File.read(log))
    puts errors.join("\n\n"), "valgrind found #{errors.size} errors in our code"
    abort unless passed && errors.empty?
  end

  # Runs a plain C test (test/c) under valgrind.
  def memcheck_c(name, *arguments)
    folder = File.join(GyreBuild.root, "tmp", "memcheck").tap { |path| FileUtils.mkdir_p(path) }
    program = GyreTest::PlainC.build(name, folder, %w[-O1]) or abort "#{name} cannot be built on this machine"
    log = File.join(folder, "#{name}.log") # system calls unknown to valgrind are named there too
    system(*VALGRIND_C, "--log-file=#{log}", program, *arguments) || abort("#{File.read(log)}#{name} failed under valgrind")
  end

  # Without it the task is skipped.
  def valgrind_or_skip
    system("bin/setup", "--with", "valgrind")
    system("valgrind", "--version", out: File::NULL, err: File::NULL) || GyreSuite.skip("valgrind is not installed")
  end

  # What valgrind found in blocks of memory, in our files. All else that it reports is about fibers,
  # which change stacks without its knowledge, and about Ruby's collector, which reads stacks as
  # they are.
  def memory_errors(log)
    ours = Regexp.union(Dir["ext/gyre/**/*.{c,h}"].map { |path| "(#{File.basename(path)}:" })
    log.gsub(/^==\d+== ?/, "").split(/\n\s*\n/).select do |error|
      frames = error.lines.grep(/^\s*(?:at|by) 0x/).first(2)
      error.match?(/Address .* is \d+ bytes (?:inside|after|before) a block/) && frames.any? { |frame| frame.match?(ours) }
    end
  end

  # Builds the extension with the sanitizers, in the copy, and runs tests there; ends the task when
  # one fails.
  def sanitized(*arguments)
    folder = File.join(GyreBuild.root, "tmp", "asan", GyreBuild.ruby_key)
    copy_checkout(folder)
    extension = GyreBuild.compile(root: folder, environment: { "GYRE_SANITIZE" => "address,undefined" })
    abort "there is no extension on this machine" unless extension
    assert_instrumented(extension)
    GyreSuite.run(*arguments, environment: sanitizer_environment, root: folder) || abort
  end

  # A check that cannot find anything is worse than none.
  def assert_instrumented(extension)
    symbols = `nm -D --undefined-only #{extension}`
    abort "#{extension} is not built with the address sanitizer" unless symbols.include?("__asan_init")
  end
end

namespace :test do
  desc "Run the tests of C code with the address and undefined behaviour sanitizers (TEST=files for others)"
  task(:asan) { GyreCheck.sanitized(*GyreCheck.files("test/**/*_test.rb", except: GyreCheck::LITTLE_C), *GyreCheck::NATIVE) }

  namespace :asan do
    desc "Run the third of them that asks the C code most, on two backends"
    task :sample do
      files = GyreCheck.files("test/**/*_test.rb", except: Regexp.union(GyreCheck::LITTLE_C, GyreCheck::NO_SAMPLE))
      GyreCheck.sanitized(*files, *GyreCheck::TWO_BACKENDS)
    end
  end

  desc "Run a few tests of C code under valgrind (TEST=files for others)"
  task memcheck: %w[memcheck:c memcheck:scheduler] do
    GyreCheck.memcheck(*GyreCheck.files(*GyreCheck::MOSTLY_C), *GyreCheck::EPOLL) if GyreCheck.valgrind_or_skip
  end

  namespace :memcheck do
    desc "Run the plain C tests under valgrind"
    task(c: :compile) do
      next unless GyreCheck.valgrind_or_skip

      GyreCheck.memcheck_c("http1_parser_test")
      GyreCheck.memcheck_c("log_ingest_test")
      GyreCheck.memcheck_c("websocket_input_test")
      GyreCheck.memcheck_c("backend_test", "alone")
    end

    desc "Run a part of the scheduler's contract under valgrind"
    task(scheduler: :compile) { GyreCheck.memcheck(*GyreCheck::TIMELESS) if GyreCheck.valgrind_or_skip }
  end

  desc "Run the stress tests on each engine, as long as GYRE_STRESS has it (20; 1 is a sample); TESTOPTS=--seed=N repeats a run's draws"
  task storm: :compile do
    environment = { "GYRE_STRESS" => ENV.fetch("GYRE_STRESS", "20"), "GYRE_TEST_LIMIT_S" => "600", "GYRE_TEST_ENGINES" => "all" }
    GyreSuite.run(*GyreCheck.files(*GyreTest::PARTS["storm"]), environment: environment) || abort
  end

  desc "Run the tests of C code with the collector and its compaction at their most eager (TEST=files for others)"
  task stress: :compile do
    environment = { "GYRE_TEST_STRESS" => "1", "GYRE_TEST_LIMIT_S" => "600" }
    files = GyreCheck.files(*GyreCheck::MOSTLY_C, *GyreCheck::FIBERS, *GyreCheck::LOG)
    GyreSuite.run(*files, *GyreCheck::NATIVE, environment: environment, command: GyreCheck::STRESSED) || abort
  end
end
