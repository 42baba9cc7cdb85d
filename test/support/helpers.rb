# frozen_string_literal: true

# Small tools for tests: waiting for something, running programs, catching output. Included in
# Minitest::Test by test_helper. Nothing here sleeps in the hope that something happened: every wait
# is for a condition and bounded.
require "rbconfig"
require "socket"
require "tempfile"
require "tmpdir"
require_relative "warnings"

module GyreTest
  # Methods for every test.
  module Helpers
    ROOT = File.expand_path("../..", __dir__)
    LIB = File.join(ROOT, "lib")
    EXE = File.join(ROOT, "exe", "gyre")
    Output = Struct.new(:out, :err, :status)

    # Returns an unused port of 127.0.0.1, for TCP and UDP. The kernel gives connections higher
    # ports, so no client takes it before its server does. All tests on this machine count on in one
    # file, so no other one takes it either.
    def self.free_port
      port = File.open(File.join(Dir.tmpdir, "gyre-test-port-#{Process.uid}"), "a+") do |file|
        file.flock(File::LOCK_EX)
        (15_000 + ((file.read.to_i + 1) % 15_000)).tap { |number| file.truncate(0) && file.write(number) }
      end
      TCPServer.open("127.0.0.1", port, &:close)
      UDPSocket.open { |socket| socket.bind("127.0.0.1", port) }
      port
    rescue Errno::EADDRINUSE
      retry
    end

    def free_port = Helpers.free_port

    # Polls until the block is true.
    def eventually(within_s: 60, what: "the condition")
      deadline = monotonic_s + within_s
      until (result = yield)
        flunk "#{what} did not come true within #{within_s} s" if monotonic_s > deadline
        sleep 0.005
      end
      result
    end

    # Yields a limit of time until the block is true, longer ones where the machine stands still for
    # as long.
    def within_limits(*limits_s, what:)
      assert limits_s.any? { |limit_s| yield limit_s }, "#{what} did not come true within #{limits_s.last} s either"
    end

    # Takes what a program prints, and runs it again by the block where the machine stood still: at
    # some time it takes less than its parts would take one after the other.
    def assert_at_once(pattern, out, one_by_one_s)
      eventually(within_s: 60, what: "an output with less than #{one_by_one_s} s") do
        assert_match pattern, out
        Float(out[pattern, 1]) < one_by_one_s || !(out = yield)
      end
    end

    # How often an io was registered with the epoll of this process that watches it: the upper half
    # of what the kernel keeps for it.
    def registrations(io)
      texts = Dir["/proc/self/fdinfo/*"].map { |path| File.read(path) rescue "" } # closed meanwhile
      texts.join[/^tfd:\s+#{io.fileno} .*\bdata:\s*(\h+)/, 1].to_s.hex >> 32
    end

    # Seconds that the block took.
    def duration_s
      start = monotonic_s
      yield
      monotonic_s - start
    end

    def monotonic_s
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    # What the block wrote to $stdout and $stderr.
    def capture(&block)
      capture_io(&block)
    end

    # Runs a program while the block runs, then ends it and everything it started: TERM, after a
    # moment KILL.
    def with_subprocess(*command, **options)
      out, out_writer = IO.pipe
      err, err_writer = IO.pipe
      pid = Process.spawn(*command, in: File::NULL, out: out_writer, err: err_writer, pgroup: true, **options)
      [out_writer, err_writer].each(&:close)
      yield pid, out, err
    ensure
      finish_process(pid) if pid
      [out, out_writer, err, err_writer].compact.each(&:close)
    end

    # Ends a process group and reaps its leader, whatever state it is in.
    def finish_process(pid, within_s: 10)
      signal_group(:TERM, pid)
      deadline = monotonic_s + within_s
      until (status = reaped(pid))
        signal_group(:KILL, pid) if monotonic_s > deadline
        sleep 0.005
      end
      signal_group(:KILL, pid) # what the leader left behind
      status == :gone ? nil : status
    end

    # Runs Ruby code or a script with this Ruby, our load path and warnings on, to its end.
    def ruby(*arguments, env: {}, gems: false, stdin: "", within_s: 60, chdir: ROOT)
      run_program(*ruby_command(*arguments, env: env, gems: gems), stdin: stdin, within_s: within_s, chdir: chdir)
    end

    # The command that `ruby` runs, for with_subprocess. Gems come as folders, because Bundler takes
    # a quarter of a second.
    def ruby_command(*arguments, env: {}, gems: false)
      folders = gems ? { "RUBYLIB" => $LOAD_PATH.grep(%r{/(?:gems|extensions)/}).join(":") } : {}
      [{ **without_bundle, **folders, **env }, RbConfig.ruby, "-w", "-I#{LIB}", *arguments]
    end

    # The environment of a program that shall know nothing of the tests' bundle.
    def without_bundle
      ENV.keys.grep(/\ABUNDLE/).push("RUBYOPT", "RUBYLIB").to_h { |name| [name, nil] }
    end

    # Runs a program to its end.
    def run_program(*command, stdin: "", within_s: 60, chdir: ROOT)
      files = Array.new(3) { |index| Tempfile.new("gyre-test-#{index}") }
      files.first.tap { |file| file.write(stdin) }.flush
      pid = Process.spawn(*command, in: files[0].path, out: files[1].path, err: files[2].path, chdir: chdir, pgroup: true)
      status = wait_for_exit(pid, within_s, command)
      out, err = files.last(2).map { |file| File.read(file.path) }
      Warnings.record_output(err)
      Output.new(out, err, status)
    ensure
      finish_process(pid) if pid && status.nil?
      files&.each(&:close!)
    end

    # Ruby 3.1 reads each word on a thread's VM stack as an object when it has compacted, and
    # crashes on another, once in many runs of the whole suite. There rake test:stress compacts, in
    # a small process.
    def compacts? = GC.respond_to?(:compact) && (RUBY_VERSION >= "3.2" || GC.stress)

    # Moves every object that can be moved, and checks what refers to them.
    def move_objects
      skip "this Ruby does not compact, or crashes when it does" unless compacts?
      GC.verify_compaction_references(toward: :empty, (RUBY_VERSION < "3.2" ? :double_heap : :expand_heap) => true)
    rescue NotImplementedError
      skip "this Ruby does not compact"
    end

    # Skips the test unless the program is installed.
    def need_program(name)
      folder = ENV["PATH"].split(":").push("/usr/sbin").find { |path| File.executable?(File.join(path, name)) }
      folder ? File.join(folder, name) : skip("#{name} is not installed")
    end

    # Skips the test where the system makes no terminals, as a container without /dev/pts.
    def need_terminal
      require "pty"
      PTY.open.each(&:close)
    rescue SystemCallError => error
      skip "no terminal can be made here: #{error.message}"
    end

    private

    def wait_for_exit(pid, within_s, command)
      eventually(within_s: within_s, what: "the end of #{command.grep(String).join(" ")[0, 200]}") { reaped(pid) }
    end

    def reaped(pid)
      Process.wait2(pid, Process::WNOHANG)&.last
    rescue Errno::ECHILD
      :gone
    end

    def signal_group(signal, pid)
      Process.kill(signal, -pid)
    rescue Errno::ESRCH, Errno::EPERM
      nil # nothing of it is left
    end
  end
end
