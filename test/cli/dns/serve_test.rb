# frozen_string_literal: true

# `gyre dns` as people start it: rules and zones, its signals, log, metrics, and what it reports
# when it cannot start.
require "test_helper"
require "support/dns_serving"
require "support/name_servers"
require "net/http"
require "tmpdir"

class CLIDNSServeTest < Minitest::Test
  include GyreTest::DNSServing
  include GyreTest::NameServers

  GYRE = File.expand_path("../../../exe/gyre", __dir__)
  Address = Struct.new(:port)

  def test_it_serves_reloads_logs_and_ends
    Dir.mktmpdir do |folder|
      write = ->(name, text) { File.join(folder, name).tap { |path| File.write(path, text) } }
      rules = write.call("rules.rb", "match('a.test') { |t| t.respond!('192.0.2.1') }\n")
      zone = write.call("zone", ZONE)
      with_server("-c", rules, "--zone", "example.org=#{zone}", "--log", File.join(folder, "log"), "--metrics", "127.0.0.1:0",
        "--pidfile", File.join(folder, "pid")) do |server, pid, err|
        assert_equal pid, File.read(File.join(folder, "pid")).to_i
        assert_equal "192.0.2.1", address(server, "a.test")
        assert_equal "192.0.2.80", address(server, "web.example.org")
        write.call("rules.rb", "match('a.test') { |t| t.respond!('192.0.2.2') }\n")
        assert_match(/are read again/, hang_up(pid, err))
        assert_equal "192.0.2.2", address(server, "a.test")
        write.call("zone", "nonsense")
        assert_match(/not reloaded, those of before go on: .*zone:1: /, hang_up(pid, err))
        assert_equal "192.0.2.80", address(server, "web.example.org")
        assert_match(/ a\.test IN A NoError 1\/0\/0 \d+\n.* web\.example\.org IN A NoError/m, File.read(File.join(folder, "log")))
        Process.kill(:TERM, pid)
        assert_predicate Process.wait2(pid)[1], :success?
        refute_path_exists File.join(folder, "pid")
      end
    end
  end

  def test_an_upstream_answers_the_rest
    upstream = scripted { |bytes| reply_to(bytes, "#{name_of(bytes)} 60 A 192.0.2.5") }
    with_server("--upstream", "127.0.0.1:#{upstream.port}") { |server| assert_equal "192.0.2.5", address(server, "x.test") }
  ensure
    close_scripted
  end

  def test_mistakes_are_reported
    { [] => [2, /nothing to answer/], %w[--zone example.org] => [1, /write ORIGIN=FILE/], %w[--zone example.org=/nonexistent] => [1, /nonexistent/],
      %w[--zone a=b -b nonsense://x] => [1, /./], %w[-c /nonexistent] => [1, /nonexistent/],
      %w[-c /dev/null -b 127.0.0.1:0 --metrics x:y:z] => [1, /\Agyre dns: "x:y:z" is not an address/],
      %w[--upstream x --user nobody-of-that-name] => [1, /no user|root/], %w[words] => [2, /unexpected argument/] }.each do |words, (status, reason)|
      output = ruby(GYRE, "dns", *words)
      assert_equal [status, true], [output.status.exitstatus, output.err.match?(reason)], "#{words} #{output.err}"
    end
  end

  private

  def with_server(*words)
    with_subprocess(*ruby_command(GYRE, "dns", "-b", "127.0.0.1:0", *words)) do |pid, _, err|
      line = err.gets
      line = err.gets until line.nil? || line.include?("listens on")
      port = line.to_s[/udp:\/\/127\.0\.0\.1:(\d+)/, 1] or flunk "it does not serve: #{line}"
      yield Address.new(port.to_i), pid, err
    end
  end

  def address(server, name)
    ask(server, name, flags: Gyre::DNS::Message::RD).answers.last&.resource&.address.to_s
  end

  def hang_up(pid, err)
    Process.kill(:HUP, pid)
    err.gets
  end
end
