# frozen_string_literal: true

# Stories of forked children, for test/stress/forks_test.rb and the contract: which task forks, how,
# what its child waits for and how the child ends. The same story runs in tasks and in threads, each
# in a process of its own. Its outcome is everything that its processes tell and the child's status.
# As a program it tells the stories on its standard input: a process of the suite is dearer to fork.
require "timeout"
require "gyre"

module GyreTest
  module Forks
    LIMIT_S = 20
    PROGRAM = __FILE__

    # Ruby's own threads, the oracle.
    class InThreads
      def run = yield

      def start(&block)
        thread = Thread.new(&block)
        thread.report_on_exception = false
        -> { thread.value }
      end
      alias schedule start

      def deadline(seconds, &block) = Timeout.timeout(seconds, &block)
    end

    # Tasks of Gyre.run, and fibers of Fiber.schedule beside them.
    class InTasks
      def initialize(backend)
        @backend = backend
      end

      # In a process of its own.
      def run(&block)
        ENV["GYRE_BACKEND"] = @backend
        Gyre.run { block.call }
      end

      def start(&block)
        return schedule(&block) unless Gyre::Task.current?

        task = Gyre::Task.current.async(&block)
        -> { task.wait }
      end

      def schedule(&block)
        ended = Gyre::Queue.new
        Fiber.schedule do
          value = block.call
          ended.push(value)
        end
        -> { ended.pop }
      end

      def deadline(seconds, &block)
        Gyre::Task.current? ? Gyre.with_deadline(seconds, &block) : Timeout.timeout(seconds, &block)
      end
    end

    # One story, told in one world.
    class Story
      FORKERS = %i[root task nested scheduled run].freeze
      WAYS = %i[block plain daemon].freeze
      WAITS = {
        sleeping: -> { sleep(0.001) && :slept },
        queue: lambda {
          queue = Thread::Queue.new
          @world.start { sleep(0.001) && queue.push(:popped) }
          queue.pop
        },
        lock: lambda {
          lock = Thread::Mutex.new
          holder = @world.start { lock.synchronize { sleep 0.002 } }
          sleep 0.001
          lock.synchronize { :locked }.tap { holder.call }
        },
        pipe: lambda {
          IO.pipe do |reader, writer|
            @world.start { sleep(0.001) && writer.write("x") }
            reader.read(1)
          end
        },
        result: -> { @world.start { sleep(0.001) && :result }.call },
        limit: lambda do
          @world.deadline(0.002) { sleep }
        rescue Timeout::Error, Gyre::TimeoutError
          :late
        end,
        child: -> { Process.wait2(fork { sleep(0.001) && exit!(5) }).last.exitstatus },
        command: -> { `echo command` }
      }.freeze
      ENDS = {
        return: -> {},
        exit: -> { exit 3 },
        exit_at_once: -> { exit! 4 },
        abort: -> { abort "x" },
        term: -> { Process.kill(:TERM, Process.pid) && sleep },
        int: -> { Process.kill(:INT, Process.pid) && sleep },
        kill: -> { Process.kill(:KILL, Process.pid) && sleep },
        exit_elsewhere: -> { @world.start { exit 6 }.call },
        exit_elsewhere_waited: -> { @world.start { sleep(0.001) && exit(7) }.call },
        exit_below_waited: -> { @world.start { @world.start { sleep(0.001) && exit(7) }.call }.call },
        exit_elsewhere_later: -> { @world.start { sleep(0.001) && exit(7) } && sleep },
        term_elsewhere: -> { @world.start { Process.kill(:TERM, Process.pid) && sleep } && sleep },
        error: -> { raise "the child's own" }
      }.freeze
      # Without a block a task's error reaches the one that waits for the task, which a forked child
      # lacks; a fiber's is reported. A thread's ends the child.
      OWN_ERRORS = { plain: %i[task nested scheduled run], daemon: %i[scheduled run] }.freeze

      def self.draw(random)
        how, ending, forker = WAYS.sample(random: random), ENDS.keys.sample(random: random), FORKERS.sample(random: random)
        ending = :exit if ending == :error && OWN_ERRORS[how]&.include?(forker)
        new(forker, how, WAITS.keys.sample(random.rand(0..3), random: random), ending)
      end

      def initialize(forker, how, waits, ending)
        @forker = forker
        @how = how
        @waits = waits
        @ending = ending
      end

      def to_s = "#{@forker} forks (#{@how}), waits: #{@waits.join(", ")}, then #{@ending}"

      # Runs the story in a process of its own.
      # @return [Array<String>] what its processes told, sorted
      def outcome(world)
        reader, @told = IO.pipe
        outer = Process.fork { @how == :daemon ? tell_of_the_daemon(world) : tell_all(world) }
        @told.close
        text = read_all(reader, outer)
        Process.wait(outer)
        text.split("\n").sort
      ensure
        reader.close
      end

      private

      def read_all(reader, outer)
        Timeout.timeout(LIMIT_S) { reader.read }
      rescue Timeout::Error
        Process.kill(:KILL, outer)
        "hangs"
      end

      # In a process that becomes the daemon's parent. Some builds of Ruby have a process between
      # the first one and the daemon.
      def tell_of_the_daemon(world)
        Gyre::Orphans.adopt # needs the extension
        Process.fork { tell_all(world) }
        Process.waitall.each { |_, status| tell_status(status) }
        exit!(0)
      end

      def tell_all(world)
        %w[INT TERM].each { |name| trap(name, "DEFAULT") }
        $stdin.reopen(File::NULL)
        $stderr.reopen(File::NULL)
        $stdout.reopen(File::NULL)
        @world = world
        @first = Process.pid
        @world.run { forker }
        tell("parent ends") if Process.pid == @first
        exit!(0)
      rescue SystemExit => error
        exit!(error.status)
      rescue SignalException => error
        trap(error.signo, "DEFAULT")
        Process.kill(error.signo, Process.pid) && sleep
      rescue Exception # rubocop:disable Lint/RescueException -- the process ends here
        exit!(1)
      end

      def forker
        case @forker
        when :root then body
        when :task then @world.start { body }.call
        when :nested then @world.start { @world.start { body }.call }.call
        when :scheduled then @world.schedule { body }.call
        when :run then @world.schedule { @world.run { body } }.call
        end
      end

      def body
        other = @world.start { sleep(0.003) && Process.pid == @first && tell("other goes on") }
        pid = @how == :block ? fork { child } : (@how == :plain ? fork : Process.daemon(true, true).then { nil })
        return child unless pid

        tell_status(Process.wait2(pid).last)
        other.call
      end

      def tell_status(status) = tell("status #{status.exitstatus.inspect} signal #{status.termsig.inspect}")

      def child
        @waits.each { |wait| tell("#{wait} #{instance_exec(&WAITS.fetch(wait))}") }
        instance_exec(&ENDS.fetch(@ending))
      end

      def tell(text) = @told.syswrite("#{text.to_s.chomp}\n")
    end
  end
end

if $PROGRAM_NAME == __FILE__
  rows, backend = Marshal.load($stdin.binmode)
  world = backend ? GyreTest::Forks::InTasks.new(backend) : GyreTest::Forks::InThreads.new
  print Marshal.dump(rows.map { |row| GyreTest::Forks::Story.new(*row).outcome(world) })
end
