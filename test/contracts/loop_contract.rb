# frozen_string_literal: true

# What every engine's keyed loop has to do, whatever it is made of. test/loop_test.rb runs these
# modules over every backend that this build has.
require "gyre/loop"
require "timeout"

# What its parts use. A class that includes it offers `backend`.
module LoopContract
  # After how long a wait that does not end has failed.
  HANG_S = Float(ENV.fetch("GYRE_TEST_LIMIT_S", "120")) / 4 # longer under the slow tools

  def setup
    super
    @loops = []
    @ios = []
  end

  def teardown
    @loops.each { |loop| loop.close unless loop.closed? }
    @ios.each { |io| io.close unless io.closed? }
    super
  end

  def new_loop
    Gyre::Loop.new(backend).tap { |loop| @loops << loop }
  end

  def new_pipe
    IO.pipe.each { |io| @ios << io }
  end

  # The keys that each yields until as many have come.
  def events(loop, count)
    keys = []
    loop.each do |key|
      keys << key
      loop.stop if keys.size == count
    end
    keys
  end

  # Runs the block in a thread; it fails the test when it does not end.
  def in_thread(&block)
    thread = Thread.new(&block)
    thread.report_on_exception = false
    thread.join(HANG_S) or flunk "it hangs:\n#{thread.backtrace.join("\n")}"
    thread.value
  ensure
    thread&.kill
    thread&.join
  end

  def when_asleep(thread = Thread.current, &block)
    Thread.new do
      Thread.pass until thread.stop?
      block.call
    end
  end

  def cpu_s
    Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)
  rescue NameError, SystemCallError
    times = Process.times
    times.utime + times.stime
  end

  # JRuby runs in a machine that has its own ways with the process.
  def only_on_cruby(reason)
    skip reason if RUBY_ENGINE == "jruby"
  end
end

# What mixes it with fibers needs a Ruby that has schedulers for them; the memory is CRuby's, and
# JRuby does not fork.
parts = Dir[File.join(__dir__, "loop", "*.rb")].sort
parts.reject! { |path| path.end_with?("/mixed.rb") } unless Fiber.respond_to?(:set_scheduler)
parts.reject! { |path| path.end_with?("/memory.rb") } unless RUBY_ENGINE == "ruby"
parts.reject! { |path| path.end_with?("/forking.rb") } unless Process.respond_to?(:fork)
parts.each { |path| require path }
