# frozen_string_literal: true

# A greedy client, always ready to send and to take, beside another one that has to be served. It is
# a process of its own, so that it never waits for this one's interpreter. No test itself.

module GyreTest
  # For test classes with HTTPServing or H2Serving.
  module HTTPFairness
    # Sends what it was given, and then the rest again and again; reads all that comes, until the
    # connection ends.
    GREEDY = <<~'RUBY'
      require "socket"
      port, head, again = Integer(ARGV[0]), *ARGV[1, 2].map { |text| [text].pack("H*") }
      socket = TCPSocket.new("127.0.0.1", port)
      socket.write(head)
      reader = Thread.new { nil while socket.readpartial(1 << 20) }
      reader.report_on_exception = false
      begin
        socket.write(again * (1_000_000 / again.bytesize)) while !again.empty?
        reader.join
      rescue SystemCallError, IOError
      end
    RUBY

    # An app that calls `work` until "/other" has come, and a greedy client at it. Yields the queue
    # of the greedy one's paths, and then asks for the other.
    def assert_other_is_served(head, again, work, **limits)
      served_other = false
      begun = Thread::Queue.new
      app = lambda do |env|
        next [200, {}, ["hello"]].tap { served_other = true } if env["PATH_INFO"] == "/other"

        begun << env["PATH_INFO"]
        work.call(env, -> { !served_other })
      end
      serve(app, limits: { write_timeout_s: 60, **limits }) do |served|
        arguments = [head, again].map { |text| text.unpack1("H*") }
        with_subprocess(*ruby_command("-e", GREEDY, served.port.to_s, *arguments)) do |pid, _out, _err|
          yield begun
          assert_equal "hello", get(served, "GET /other HTTP/1.1").body
          Process.kill(:KILL, pid)
        end
        eventually { served.stats[:running].zero? }
        served.errors.clear # what becomes of the greedy one is tested elsewhere
      end
    end
  end
end
