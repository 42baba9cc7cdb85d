# frozen_string_literal: true

# The process that loads the app and forks the workers. Executed by the supervisor, which describes
# the inherited sockets in the link's first message. Has no scheduler and serves no request, so that
# a fork copies neither a loop nor connections. Ends when its link ends.
#
#   supervisor ─ {fork: 2} + socket ─► mold ─ fork ─► a middle process ─ fork ─► worker 2
#              ◄─ {forked: pid} ──────                 ends at once: the worker is the supervisor's child (Gyre::Orphans)

require "gyre/broadcast/uplink"
require "gyre/loop/wakeup_pipe"
require "gyre/cluster/link"
require "gyre/cluster/sockets"
require "io/wait"

module Gyre
  module Cluster
    class Mold
      # Environment variable: "<descriptor of the link> <pid of the supervisor>".
      VARIABLE = "GYRE_MOLD"
      # Environment variables for the supervisor alone, which the mold does not get.
      SUPERVISORS_OWN = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES",
                         Broadcast::Uplink::VARIABLE].to_h { |name| [name, nil] }.freeze
      # Maximum seconds until the middle process answers: from Ruby 3.4 on, a forked child may
      # hang at its start (https://github.com/ruby/ruby/pull/13584).
      FORK_LIMIT_S = 10
      WORDS_BYTES = 1000
      # Signals that a terminal or service manager sends to all processes, but only the supervisor
      # obeys. The mold traps them with empty blocks instead of ignoring them: programs that the
      # app starts would inherit ignored signals.
      DEAF_TO = %w[INT TERM HUP QUIT USR1 USR2 TTIN TTOU].freeze

      # True if this process was started as a mold.
      def self.asked? = ENV.fetch(VARIABLE, "").split.last == Process.ppid.to_s

      # Executes the command as a mold. Sends sockets and secrets over the link, because other
      # processes could read them in the environment. Returns the mold's link and pid.
      def self.spawn(command, sockets, environment: {}, secrets: nil, **options)
        near, far = Link.pair
        near.send({ listeners: sockets.to_a, secrets: secrets })
        staying = [far.socket, *sockets.listeners.map(&:socket)].to_h { |io| [io.fileno, io.fileno] }
        environment = { **environment, **SUPERVISORS_OWN, VARIABLE => "#{far.socket.fileno} #{Process.pid}" }
        pid = Process.spawn(environment, *command, close_others: true, **options, **staying)
        [near, pid]
      ensure
        far&.close
        near&.close unless pid
      end

      # Runs the mold that the block makes; the block gets the link to the supervisor, the sockets
      # and the secrets. If one of `errors` is raised, sends its message to the supervisor and
      # returns false.
      def self.become(*errors)
        DEAF_TO.each { |name| trap(name) { } } # while the app loads
        link = Link.new(Integer(ENV.delete(VARIABLE).split.first))
        trap("TERM") { exit(1) if link.left? } # the supervisor dismisses it while it loads
        listeners, secrets = link.receive.values_at("listeners", "secrets")
        Sockets.keep_private(listeners.map { |each| each.fetch("descriptor") })
        yield(link, Sockets.from(listeners, owned: false), secrets).run
        true
      rescue *errors => error
        link&.send({ failed: error.message })
        false
      end

      # The block runs in each worker, gets the worker's number and link, and returns the exit
      # status.
      def initialize(link, hooks, &work)
        @link = link
        @hooks = hooks
        @work = work
      end

      def run
        Process.setproctitle("gyre: mold") if defined?(Process.setproctitle)
        # Collects garbage before any fork, so that workers' collectors write to few shared pages.
        Process.respond_to?(:warmup) ? Process.warmup : GC.start
        @link.send({ ready: true })
        while (message = @link.receive)
          index = message["fork"] or next
          serve(index)
        end
      rescue LinkError
        nil # the supervisor has gone
      end

      private

      def serve(index)
        socket = @link.take_socket
        @hooks.call(:before_fork, index)
        @link.send({ forked: fork_twice(index, socket) })
      rescue LinkError
        raise
      rescue StandardError, ScriptError => error
        @link.send({ fork_failed: "was not forked: #{error.full_message(highlight: false, order: :top).chomp}" })
      ensure
        socket&.close
      end

      # Returns the worker's pid. Does not read to the pipe's end, because a worker that hangs
      # keeps the pipe open.
      def fork_twice(index, socket)
        [$stdout, $stderr].each(&:flush)
        reader, writer = Loop::WakeupPipe.open
        middle = fork { fork_worker(index, socket, reader, writer) }
        writer.close
        said = reader.read_nonblock(WORDS_BYTES, exception: false) if reader.wait_readable(FORK_LIMIT_S)
        Process.kill(:KILL, middle) unless said
        Integer(said.to_s, exception: false) or raise said || "the forked process hung before its first line"
      ensure
        Process.detach(middle).join if middle # raises nothing, even if the app reaps all children
        reader&.close
      end

      # Runs in the middle process. Calls exit!, which runs no at_exit block of the app.
      def fork_worker(index, socket, reader, writer)
        reader.close
        worker = fork { become_worker(index, socket, writer) }
        writer.write(worker.to_s)
      rescue SystemCallError => error
        writer.write(error.message)
      ensure
        exit!(0)
      end

      def become_worker(index, socket, writer)
        writer.close
        @link.close
        exit(@work.call(index, Link.new(socket)))
      end
    end
  end
end
