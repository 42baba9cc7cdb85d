# frozen_string_literal: true

# Pairs of connected transports for tests, plain and over TLS, and certificates that are made once
# for a test process.
require "socket"
require "tmpdir"
require "fileutils"
require "gyre"
require "gyre/net"
require_relative "certificates"

module GyreTest
  # Included in test classes; `secure?` is which kind they test.
  module Transports
    class << self
      def certificates
        @certificates ||= begin
          folder = Dir.mktmpdir("gyre-test-certificates")
          owner = Process.pid
          at_exit { FileUtils.rm_rf(folder) if Process.pid == owner }
          Certificates.new(folder)
        end
      end

      def identity(name)
        (@identities ||= {})[name] ||= certificates.issue(name)
      end

      def contexts
        @contexts ||= begin
          certificate, key = identity("server")
          [Gyre::TLS.client(ca: certificates.authority), Gyre::TLS.server(cert: certificate, key: key)]
        end
      end
    end

    def certificates = Transports.certificates

    def teardown
      @transports&.each(&:abandon)
      super
    end

    # Returns a client's and a server's end, after the handshake; closed with the test.
    def transport_pair(sockets = UNIXSocket.pair, contexts: (Transports.contexts if secure?))
      pair = sockets.zip(%w[server client]).map { |socket, peer| keep(Gyre::Transport.new(socket, peer)) }
      return pair unless contexts

      pair[0].begin_tls(contexts[0], name: "localhost")
      pair[1].begin_tls(contexts[1])
      pair.each(&:handshake_available) until pair.all? { |transport| transport.handshake_available == true }
      pair
    end

    def tcp_sockets
      server = TCPServer.new("127.0.0.1", 0)
      client = TCPSocket.new("127.0.0.1", server.local_address.ip_port)
      [client, server.accept]
    ensure
      server&.close
    end

    def keep(transport)
      (@transports ||= []) << transport
      transport
    end

    # --- jobs: threads without a scheduler, or tasks; `fibers?` is which ---

    # Runs a test's body where jobs can be started.
    def concurrently(&block)
      fibers? ? Gyre.run(&block) : block.call
    ensure
      @jobs&.each { |job| cancel(job) }
    end

    def job(&block)
      job = fibers? ? Gyre::Task.current.async(&block) : Thread.new(&block)
      job.report_on_exception = false if job.is_a?(Thread)
      (@jobs ||= []) << job
      job
    end

    # Returns what the job's block returned.
    def value(job)
      job.is_a?(Thread) ? job.value : job.wait
    end

    # Until a job waits. A task has run up to there already, unless it has let others run before.
    def parked(*jobs)
      jobs.grep(Thread).each { |thread| eventually { thread.stop? } }
      tasks = jobs - jobs.grep(Thread)
      sleep 0 while tasks.any? && Fiber.scheduler.waits.any? { |wait| wait.state == :ready && tasks.any? { |task| wait.fiber == task.fiber } }
    end

    # Ends a job in its wait.
    def cancel(job)
      return job.stop unless job.is_a?(Thread)

      job.kill
      job.join
    rescue StandardError
      nil # what the job raised
    end

    # Waits for a transport as a keyed loop's user does.
    def wait_available(transport, wanted)
      wanted == :wait_readable ? transport.to_io.wait_readable(10) : transport.to_io.wait_writable(10)
    end

    # What comes until the end, by calls that never wait.
    def read_all_available(transport, limit = 16_384, buffer = nil)
      all = String.new
      while (bytes = transport.read_available(limit, buffer))
        bytes.is_a?(Symbol) ? wait_available(transport, bytes) : all << bytes
      end
      all
    end
  end
end
