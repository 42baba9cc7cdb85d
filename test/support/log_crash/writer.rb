# frozen_string_literal: true

# A program that logs, in a forked process, with threads and forks of its own: it writes numbered
# messages through one acknowledged client and reports through a pipe what the client has
# acknowledged. Used by GyreTest::LogCrash::World, which kills it. It has nothing of the server.

module GyreTest
  module LogCrash
    # One process. What it reports, a line each (below PIPE_BUF, so whole):
    #
    #   pid 123             a fork of it
    #   ack w1.0 17         all up to the 17th of this writer is acknowledged
    #   closed w1.0 20      its client was closed after the 20th
    #   sent old1.0 20      the same on the old wire, which has no acknowledgements
    class Writer
      ADOPTION_S = 60

      def initialize(name, settings, pipe)
        @name, @settings, @pipe = name, settings, pipe
        @random = Random.new(settings.fetch(:seed))
        @counts = Hash.new(0)
      end

      def run
        Mines.lay(@settings[:mine], @random) if @settings[:mine]
        @client = new_client
        threads = Array.new(@settings.fetch(:threads)) { |index| Thread.new { log("#{@name}.#{index}", @random.rand(1 << 30)) } }
        forks = Array.new(@settings.fetch(:forks)) { |index| fork_writer("#{@name}f#{index}") }
        watch(threads)
        threads.each(&:value)
        adopt if @settings[:last] && !@settings[:old]
        finish
        forks.each { |pid| Process.wait(pid) }
        0
      end

      private

      def new_client
        Gyre::Log::Client.new(@settings.fetch(:service), port: @settings.fetch(:port), acknowledged: !@settings[:old],
                              spool: !@settings[:old] && @settings.fetch(:spool),
                              memory_limit: 1 << 20, stall_timeout: 0.4, connect_timeout: 0.5, retry_interval: 0.005..0.06,
                              report: method(:report))
      end

      # The same client goes on in the child.
      def fork_writer(name)
        sleep(@random.rand * 0.03)
        seed = @random.rand(1 << 30)
        pid = fork do
          status = 1
          @name, @random, @counts = name, Random.new(seed), Hash.new(0)
          thread = Thread.new { log("#{name}.0", seed) }
          watch([thread])
          thread.value
          finish
          status = 0
        ensure
          exit!(status)
        end
        tell("pid #{pid}")
        pid
      end

      def log(writer, seed)
        random = Random.new(seed)
        (1..@settings.fetch(:messages)).each do |number|
          break if number % 16 == 1 && File.exist?(@settings.fetch(:stop)) && !@settings[:last]

          # These are dropped; their numbers are acknowledged all the same.
          @client.log("trace", "never written") if random.rand(50).zero?
          @client.log("info", Message.text(writer, number))
          @counts[writer] = number
          sleep(random.rand * @settings.fetch(:pause_s)) if random.rand(12).zero?
        end
      end

      # Asks again and again what is acknowledged; counts are taken before.
      def watch(threads)
        while threads.any?(&:alive?)
          counts = @counts.dup
          acknowledged(counts) if @client.flush(0.02)
          sleep 0.002
        end
      end

      # Adoption begins with each connection, and gives up with its own.
      def adopt
        deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + ADOPTION_S
        until Dir["#{@settings.fetch(:spool)}/#{@settings.fetch(:service)}@*"].empty? || Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
          client = new_client
          client.connect(1)
          sleep 0.3
          client.close
        end
      end

      # What is left after that is in the spool.
      def finish
        counts = @counts.dup
        acknowledged(counts) if @client.flush(@settings[:last] ? 20 : 0.05)
        @client.close(@random.rand * 0.1)
        counts.each { |writer, number| tell("#{@settings[:old] ? "sent" : "closed"} #{writer} #{number}") }
      end

      def acknowledged(counts)
        counts.each { |writer, number| tell("ack #{writer} #{number}") } unless @settings[:old]
      end

      def tell(line)
        @pipe.syswrite("#{line}\n")
      end

      def report(text)
        tell("say #{@name}: #{text.tr("\n", " ")[0, 400]}")
      end
    end
  end
end
