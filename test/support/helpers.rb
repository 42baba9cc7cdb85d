# frozen_string_literal: true

# Small tools for tests: waiting for something, running programs, catching output. Included in
# Minitest::Test by test_helper. Nothing here sleeps in the hope that something happened: every wait
# is for a condition and bounded.
require "rbconfig"
require "tempfile"
require_relative "warnings"

module GyreTest
  # Methods for every test.
  module Helpers
    ROOT = File.expand_path("../..", __dir__)
    LIB = File.join(ROOT, "lib")
    EXE = File.join(ROOT, "exe", "gyre")
    Output = Struct.new(:out, :err, :status)

    # Polls until the block is true.
    # @param within_s [Numeric] how long at most, so that nothing hangs; the test fails after that.
    #   It means nothing for speed
    # @param what [String] named in the failure
    # @return what the block returned
    def eventually(within_s: 30, what: "the condition")
      deadline = monotonic_s + within_s
      until (result = yield)
        flunk "#{what} did not come true within #{within_s} s" if monotonic_s > deadline
        sleep 0.005
      end
      result
    end

    # How often an io was registered with the epoll of this process that watches it: the upper half
    # of what the kernel keeps for it.
    # @return [Integer] 0 before the first time
    def registrations(io)
      texts = Dir["/proc/self/fdinfo/*"].map { |path| File.read(path) rescue "" } # closed meanwhile
      texts.join[/^tfd:\s+#{io.fileno} .*\bdata:\s*(\h+)/, 1].to_s.hex >> 32
    end

    # Seconds that the block took.
    # @return [Float]
    def duration_s
      start = monotonic_s
      yield
      monotonic_s - start
    end

    def monotonic_s
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    # What the block wrote to $stdout and $stderr.
    # @return [Array(String, String)]
    def capture(&block)
      capture_io(&block)
    end

    # Runs a program while the block runs, then ends it and everything it started: TERM, after a
    # moment KILL.
    # @param command [Array<String>] program and arguments, before them perhaps a Hash of
    #   environment variables
    # @yield [pid, out, err] out and err are the program's outputs to read from
    # @return what the block returned
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
    # @return [Process::Status, nil] nil when it was reaped already
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
    # @param arguments [Array<String>] as for the ruby command: "-e", code, or a path, and what
    #   follows
    # @param gems [Boolean] whether the bundle's gems can be required (slower to start)
    # @param env [Hash{String=>String,nil}]
    # @return [Output] out, err, status. Warnings about our files fail the test.
    def ruby(*arguments, env: {}, gems: false, stdin: "", within_s: 60, chdir: ROOT)
      run_program(*ruby_command(*arguments, env: env, gems: gems), stdin: stdin, within_s: within_s, chdir: chdir)
    end

    # The command that `ruby` runs, for with_subprocess.
    # @return [Array]
    def ruby_command(*arguments, env: {}, gems: false)
      [(gems ? {} : without_bundle).merge(env), RbConfig.ruby, "-w", "-I#{LIB}", *arguments]
    end

    # The environment of a program that shall know nothing of the tests' bundle.
    # @return [Hash{String=>nil}]
    def without_bundle
      ENV.keys.grep(/\ABUNDLE/).push("RUBYOPT", "RUBYLIB").to_h { |name| [name, nil] }
    end

    # Runs a program to its end.
    # @return [Output]
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

    # Moves every object that can be moved, and checks what refers to them. Ruby 3.1 has crashed in
    # it, once in many runs of the whole suite: there it is left to rake test:stress, which moves
    # objects all the time, in a small process.
    def move_objects
      skip "this Ruby does not compact" unless GC.respond_to?(:compact)
      skip "Ruby 3.1 may crash when it moves the objects of a large process; rake test:stress moves them" if RUBY_VERSION < "3.2" && !GC.stress
      GC.verify_compaction_references(toward: :empty, (RUBY_VERSION < "3.2" ? :double_heap : :expand_heap) => true)
    rescue NotImplementedError
      skip "this Ruby does not compact"
    end

    # Skips the test unless the program is installed.
    # @return [String] the program's path
    def need_program(name)
      folder = ENV["PATH"].split(":").push("/usr/sbin").find { |path| File.executable?(File.join(path, name)) }
      folder ? File.join(folder, name) : skip("#{name} is not installed")
    end

    # Skips the test where the system makes no terminals, as a container without /dev/pts.
    # @return [void]
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

    # @return [Process::Status, :gone, nil] nil while it runs
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
