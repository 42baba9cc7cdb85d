# frozen_string_literal: true

# A server with workers as a process, for the tests of clusters: its processes, its restarts. No
# test itself.

require "support/processes"
require "web/serving"

module GyreTest
  # For test classes; beside what Serving has.
  module Clusters
    include Serving

    APP = <<~'RUBY'
      code = File.exist?("code") ? File.read("code") : "1"
      raise "the new code is broken" if code == "broken"
      run(lambda do |env|
        case env["PATH_INFO"]
        when "/wait"
          puts "waiting"
          sleep 0.005 until File.exist?("go")
        when "/stuck" then loop { Integer.sqrt(2) }
        when "/grow" then ($grown ||= []) << ("x" * 150_000_000)
        end
        [200, { "content-type" => "text/plain" }, ["#{Process.pid} #{code}"]]
      end)
    RUBY

    # The processes of a running server.
    Cluster = Struct.new(:test, :program) do
      def pids(kind)
        children.select { |pid| title(pid)&.start_with?("gyre: #{kind}") }
      end

      def children = Processes.children_of(program.pid)

      # A worker may serve before the middle process between it and the mold has ended; only then is
      # it the supervisor's child. Titles tell, because programs beside the workers are children.
      def await_children
        count = program.text(:out)[/ with (\d+) workers?$/, 1] or return
        test.eventually(what: "#{count} workers and a mold as children") { pids("mold").any? && pids("worker").size >= Integer(count) }
      end

      # A restart may be done before a former mold has ended and a worker is the supervisor's child.
      def await_one_mold_and(workers)
        test.eventually(what: "one mold and #{workers} workers") { [pids("mold").size, pids("worker").size] == [1, workers] }
      end

      def title(pid)
        File.read("/proc/#{pid}/cmdline").delete("\0").strip
      rescue SystemCallError
        nil
      end

      def get(path = "/")
        pid, code = program.get(path)[/\r\n\r\n(.*)\z/m, 1].to_s.split
        [pid.to_i, code]
      end

      # Restarts, and waits until it is done. It begins again where the machine was too busy to load
      # the app within the limit.
      def restart(signal, kind)
        ends = "#{kind} restart: all workers run the new code"
        before, late = program.text(:out).scan(ends).size, loads_too_late
        program.signal(signal)
        test.eventually(what: "the #{kind} restart") do
          program.signal(signal) if late < (late = loads_too_late)
          program.text(:out).scan(ends).size > before
        end
      end

      def loads_too_late = program.text(:err).scan("did not load the app within").size

      def code=(text)
        File.write(File.join(program.folder, "code"), text)
      end
    end

    def cluster(*flags, app: Clusters::APP, **options)
      serve(*flags, app: app, **options) do |program|
        cluster = Cluster.new(self, program)
        cluster.await_children
        yield cluster, program
      end
    end

    # Yields a limit of time for each start, too: the longer one only where the machine is too busy
    # for the other.
    def cluster_with_a_limit(*flags, **options)
      started = false
      [3, 20].each do |limit_s|
        return cluster("--worker-boot-timeout", limit_s.to_s, "--load-timeout", limit_s.to_s, *flags, **options) do |cluster, program|
          started = true
          yield cluster, program, limit_s
        end
      rescue Minitest::Assertion
        raise if started || limit_s > 3
      end
    end

    def go(program) = File.write(File.join(program.folder, "go"), "")
  end
end
