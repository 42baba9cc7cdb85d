# frozen_string_literal: true

# The process that has loaded the app and forks the workers. The supervisor starts it by exec, with
# a link; Gyre::CLI::Serve finds the link and calls it. It has no scheduler and answers no request,
# so a fork copies neither a loop nor connections. It ends when its link does.
#
#   supervisor ─ {fork: 2} + socket ─► mold ─ fork ─► a middle process ─ fork ─► worker 2
#              ◄─ {forked: pid} ──────                 ends at once: the worker is the supervisor's child (Gyre::Orphans)

require "gyre/loop/wakeup_pipe"
require "gyre/web/cluster/link"
require "gyre/web/sockets"
require "io/wait"
require "json"

module Gyre
  module Web
    module Cluster
      # See the head of this file.
      class Mold
        # JSON in the environment of the process: link: the descriptor; supervisor: the process;
        # listeners: of {Sockets#to_a}.
        VARIABLE = "GYRE_MOLD"
        # What is for the first process only.
        SUPERVISORS_OWN = %w[NOTIFY_SOCKET WATCHDOG_USEC WATCHDOG_PID LISTEN_FDS LISTEN_PID LISTEN_FDNAMES].freeze
        # From Ruby 3.4 on a forked child may hang before its first line
        # (https://github.com/ruby/ruby/pull/13584).
        FORK_LIMIT_S = 10
        WORDS_BYTES = 1000
        # A terminal or a service manager sends them to all processes of the server, and only the
        # supervisor is to act on them. (A block, for what is ignored stays so in programs that the
        # app starts.)
        DEAF_TO = %w[INT TERM HUP QUIT USR1 USR2 TTIN TTOU].freeze
        private_constant :FORK_LIMIT_S, :WORDS_BYTES

        # @return [Boolean] whether this process was started to be one
        def self.asked? = ENV.key?(VARIABLE) && JSON.parse(ENV[VARIABLE])["supervisor"] == Process.ppid

        # @return [Array(Link, Array<Sockets::Inherited>)] to the supervisor, and its sockets
        def self.receive
          given = JSON.parse(ENV.delete(VARIABLE))
          Sockets.keep_private(given.fetch("listeners").map { |each| each.fetch("descriptor") })
          [Link.new(given.fetch("link")), Sockets.from(given.fetch("listeners"), owned: false)]
        end

        # @param link [Link]
        # @param hooks [Hooks]
        # @yieldparam index [Integer] in a worker: its number
        # @yieldparam link [Link] its own
        # @yieldreturn [Integer] its exit status
        def initialize(link, hooks, &work)
          @link = link
          @hooks = hooks
          @work = work
        end

        # Signals that come while the app is being loaded.
        # @return [void]
        def self.ignore_signals = DEAF_TO.each { |name| trap(name) { } }

        # Forks until the link ends.
        #
        # @return [void]
        def run
          Process.setproctitle("gyre: mold") if defined?(Process.setproctitle)
          # A heap without garbage, its objects old: a worker's collector then writes to few of the
          # pages that it shares with the others.
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

        # The pipe's end is not waited for: the worker has it open as well until its first line.
        #
        # @return [Integer] the worker's process
        def fork_twice(index, socket)
          [$stdout, $stderr].each(&:flush)
          reader, writer = Loop::WakeupPipe.open
          middle = fork { fork_worker(index, socket, reader, writer) }
          writer.close
          said = reader.read_nonblock(WORDS_BYTES, exception: false) if reader.wait_readable(FORK_LIMIT_S)
          Process.kill(:KILL, middle) unless said
          Integer(said.to_s, exception: false) or raise said || "the forked process hung before its first line"
        ensure
          collect(middle) if middle
          reader&.close
        end

        def collect(middle)
          Process.wait(middle)
        rescue Errno::ECHILD
          nil # the app ignores SIGCHLD, or reaps all children
        end

        # In the middle process: none of the app's at_exit.
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
end
