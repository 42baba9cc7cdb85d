# frozen_string_literal: true

# Rails on thin on Gyre: the server and the application as they are, with Gyre's stub in the place
# of eventmachine. Run by `rake test:frameworks`.

require "test_helper"
require "fileutils"
require "socket"
require_relative "bundled"

class ThinTest < Minitest::Test
  include GyreTest::Bundled

  APP = File.join(__dir__, "rails")

  def test_pages_come_and_a_request_that_waits_lets_others_go_on
    thin do |folder|
      assert_equal [200, "1 fiber Gyre::Scheduler"], answer(request(folder, "/version"))
      assert_equal 404, answer(request(folder, "/nothing")).first
      waiting = request(folder, "/wait")
      eventually(what: "a request that runs") { File.exist?("#{folder}/waiting") }
      assert_equal [200, "1 fiber Gyre::Scheduler"], answer(request(folder, "/version"))
      File.write("#{folder}/go", "")
      assert_equal [200, "1 true"], answer(waiting)
    end
  end

  private

  def thin
    Dir.mktmpdir do |folder|
      FileUtils.cp_r("#{APP}/.", folder)
      command = [RbConfig.ruby, "-e", 'load Gem.bin_path("thin", "thin")', "start", "-R", "config.ru", "-S", "#{folder}/thin.sock"]
      with_subprocess(bundled, *command, chdir: folder) do |pid, out, err|
        eventually(what: "a socket", within_s: 30) { File.socket?("#{folder}/thin.sock") || Process.wait(pid, Process::WNOHANG) }
        yield folder
      rescue SystemCallError => error
        flunk "#{error.message}\n#{[out, err].map { |io| io.read_nonblock(65_536, exception: false) }}"
      end
    end
  end

  def request(folder, path)
    UNIXSocket.new("#{folder}/thin.sock").tap { |socket| socket.write("GET #{path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n") }
  end

  # Returns status and body.
  def answer(socket)
    head, body = socket.read.split("\r\n\r\n", 2)
    [Integer(head[/\d{3}/]), body]
  ensure
    socket.close
  end
end
