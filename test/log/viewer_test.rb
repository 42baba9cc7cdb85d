# frozen_string_literal: true

# Looking at a server: status and lines, and what is reported when that cannot be.

require "test_helper"
require "gyre"
require "gyre/log/viewer"

class LogViewerTest < Minitest::Test
  Log = Gyre::Log

  # A server that takes a connection, reads its first frame, and answers with each of these.
  def serving(*answers, key: nil)
    TCPServer.open("127.0.0.1", 0) do |listener|
      frames = Thread::Queue.new
      thread = Thread.new { loop { answer(listener.accept, frames, answers) } }
      yield Log::Viewer.new("127.0.0.1:#{listener.addr[1]}", key: key), frames
    ensure
      thread.kill.join
    end
  end

  def answer(socket, frames, answers)
    frames.push(socket.readpartial(1000))
    answers.each { |text| socket.write(text) }
  rescue Errno::EPIPE, Errno::ECONNRESET
    nil # the viewer has seen enough
  ensure
    socket.close
  end

  def test_status
    serving("accepted 2\n{\"mess", "ages\":5}\n", key: "sesame") do |viewer, frames|
      assert_equal({ "messages" => 5 }, viewer.status)
      assert_equal Log::Wire.frame("", "authentication/2 status", "sesame"), frames.pop
    end
  end

  def test_lines_until_the_server_ends
    serving("accepted 2\na\nb", "b\nc") do |viewer, frames|
      lines = []
      viewer.each_line("web", connected: -> { lines << :connected }) { |line| lines << line }
      assert_equal [:connected, "a", "bb"], lines
      assert_equal Log::Wire.frame("web", "authentication/2 tail", ""), frames.pop
    end
  end

  def test_the_block_may_break
    serving("accepted 2\na\nb\n") { |viewer, _| assert_equal "a", viewer.each_line { |line| break line } } # rubocop:disable Lint/UnreachableLoop -- the break is the test
  end

  def test_other_fibers_run_meanwhile
    serving("accepted 2\n{}\n") do |viewer, _|
      assert_equal [{}, 3], Gyre.run { |task| [task.async { viewer.status }, task.async { 3 }].map(&:wait) }
    end
  end

  def test_a_server_may_refuse_a_viewer
    serving("denied\n") { |viewer, _| assert_match(/does not accept the key/, assert_raises(Log::Denied) { viewer.status }.message) }
    serving("accepted\n") { |viewer, _| assert_match(/one of Analogger's/, assert_raises(Log::Incompatible) { viewer.status }.message) }
    serving("error: no\n") { |viewer, _| assert_match(/answered "error: no"/, assert_raises(Gyre::ProtocolError) { viewer.status }.message) }
    serving { |viewer, _| assert_match(/without an answer/, assert_raises(EOFError) { viewer.status }.message) }
    serving("accepted 2\nsmoke\n") { |viewer, _| assert_match(/invalid status/, assert_raises(Gyre::ProtocolError) { viewer.status }.message) }
  end

  def test_the_wait_for_a_silent_server_ends
    TCPServer.open("127.0.0.1", 0) do |listener|
      viewer = Log::Viewer.new(listener.addr[1], timeout_s: 0.05)
      assert_match(/does not answer/, assert_raises(Errno::ETIMEDOUT) { viewer.status }.message)
    end
  end

  def test_a_unix_socket
    Dir.mktmpdir do |folder|
      UNIXServer.open(File.join(folder, "log")) do |listener|
        thread = Thread.new { answer(listener.accept, Thread::Queue.new, ["accepted 2\n{}\n"]) }
        assert_equal({}, Log::Viewer.new("unix://#{folder}/log").status)
        thread.join
      end
    end
  end

  def test_the_key_is_not_shown
    refute_includes Log::Viewer.new(1, key: "sesame").inspect, "sesame"
  end
end
