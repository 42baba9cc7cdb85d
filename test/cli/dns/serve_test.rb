# frozen_string_literal: true

# `gyre dns` as people start it: rules and zones, its signals, log, metrics, and what it reports
# when it cannot start.
require "test_helper"
require "support/dns_serving"
require "support/name_servers"
require "etc"
require "net/http"
require "pathname"
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
      with_server("-c", rules, "--zone", "example.org=#{zone}", "--log", File.join(folder, "log"), "--metrics", "127.0.0.1:0") do |server, pid, err|
        assert_equal "192.0.2.1", address(server, "a.test")
        assert_equal "192.0.2.80", address(server, "web.example.org")
        write.call("rules.rb", "match('a.test') { |t| t.respond!('192.0.2.2') }\n")
        assert_match(/are read again/, hang_up(pid, err))
        assert_equal "192.0.2.2", address(server, "a.test")
        write.call("zone", "nonsense")
        assert_match(/not reloaded, the former rules and zones stay: .*zone:1: /, hang_up(pid, err))
        assert_equal "192.0.2.80", address(server, "web.example.org")
        File.rename(File.join(folder, "log"), File.join(folder, "rotated"))
        Dir.mkdir(File.join(folder, "log"))
        write.call("zone", ZONE)
        assert_match(/--log goes on in the former file: /, hang_up(pid, err))
        assert_match(/are read again/, err.gets)
        address(server, "last.test")
        eventually { File.read(File.join(folder, "rotated")).include?("last.test") }
        File.rename(File.join(folder, "log"), File.join(folder, "folder"))
        File.rename(File.join(folder, "rotated"), File.join(folder, "log"))
        assert_match(/ a\.test IN A NoError 1\/0\/0 \d+\n.* web\.example\.org IN A NoError/m, File.read(File.join(folder, "log")))
        Process.kill(:TERM, pid)
        assert_predicate Process.wait2(pid)[1], :success?
      end
    end
  end

  def test_workers_share_the_questions_are_replaced_reloaded_counted_and_end
    Dir.mktmpdir do |folder|
      rules = File.join(folder, "rules.rb")
      write = ->(word) { File.write(rules, "match('a.test') { |t| t.respond!(Process.pid.to_s, '#{word}') }\n") }
      write.call("one")
      with_server("-w", "2", "-c", rules, "--metrics", "127.0.0.1:0") do |server, pid, err, metrics|
        answers = Array.new(40) { texts_of(server) }
        workers = answers.map(&:first).uniq
        assert_equal [2, ["one"]], [workers.size, answers.map(&:last).uniq]
        TCPSocket.open("127.0.0.1", server.port) { |socket| socket.write(framed(query)) && assert_equal(1, read_framed(socket).answers.size) }
        counted = -> { Net::HTTP.get(URI("#{metrics}/metrics"))[/^gyre_dns_queries_total (\d+)/, 1].to_i }
        eventually(what: "the sum") { counted.call == 41 }

        write.call("two")
        assert_match(/are read again/, hang_up(pid, err))
        eventually(what: "both reloads") { Array.new(20) { texts_of(server).last }.uniq == ["two"] }
        eventually(what: "all counts") { counted.call >= 61 }
        before = counted.call
        Process.kill(:KILL, workers.first.to_i)
        eventually(what: "the next worker") { answer(server, within_s: 0.2).then { |pid| pid && !workers.include?(pid) } }
        assert_operator counted.call, :>=, before
        Process.kill(:TERM, pid)
        assert_predicate Process.wait2(pid)[1], :success?
        workers.each { |worker| assert_raises(Errno::ESRCH) { Process.kill(0, worker.to_i) } }
      end
    end
  end

  def test_workers_with_a_mistake_in_their_rules_do_not_start
    output = ruby(GYRE, "dns", "-w", "1", "-b", "127.0.0.1:0", "-c", "/nonexistent")
    assert_equal 1, output.status.exitstatus
    assert_match(/nonexistent/, output.err)
  end

  def test_root_binds_a_port_for_workers_of_another_user
    skip "only root can become another user" unless Process.euid.zero?
    skip "other users may not run #{RbConfig.ruby}" unless as_nobody?
    port = (600..1023).find { |each| free?(each) }
    Dir.mktmpdir do |folder|
      File.chmod(0o755, folder)
      rules = File.join(folder, "rules.rb")
      File.write(rules, "match('a.test') { |t| t.respond!(Process.pid.to_s, Process.uid.to_s) }\n")
      [%w[-w 2], %w[--log -]].each do |words| # "-" is no file to give to the user
        with_server(*words, "-c", rules, "--user", "nobody", bind: "127.0.0.1:#{port}") do |server, _|
          assert_equal [Etc.getpwnam("nobody").uid.to_s], Array.new(10) { texts_of(server).last }.uniq
        end
      end
    end
  end

  def test_an_upstream_answers_the_rest
    upstream = scripted { |bytes| reply_to(bytes, "#{name_of(bytes)} 60 A 192.0.2.5") }
    with_server("--upstream", "127.0.0.1:#{upstream.port}", "--metrics", "127.0.0.1:0") do |server, _, _, metrics|
      2.times { assert_equal "192.0.2.5", address(server, "x.test") }
      rows = Net::HTTP.get(URI("#{metrics}/metrics")).scan(/^gyre_dns_(\w+) (\d+)$/).to_h { |name, value| [name, value.to_i] }
      assert_equal [2, 2, 1, 1, 1], rows.values_at("queries_total", "asked_total", "cache_hits_total", "cache_misses_total", "cache_entries")
    end
  ensure
    close_scripted
  end

  def test_mistakes_are_reported
    { [] => [2, /nothing to answer/], %w[--zone example.org] => [1, /write ORIGIN=FILE/], %w[--zone example.org=/nonexistent] => [1, /nonexistent/],
      %w[--zone a=b -b nonsense://x] => [1, /./], %w[-c /nonexistent] => [1, /nonexistent/],
      %w[-c /dev/null -b 127.0.0.1:0 --metrics x:y:z] => [1, /\Agyre dns: "x:y:z" is not an address/],
      %w[--upstream x --user absent-name] => [1, /no user|root/], %w[words] => [2, /unexpected argument/] }.each do |words, (status, reason)|
      output = ruby(GYRE, "dns", *words)
      assert_equal [status, true], [output.status.exitstatus, output.err.match?(reason)], "#{words} #{output.err}"
    end
  end

  def test_check_reports_all_mistakes_and_starts_nothing
    Tempfile.create(["rules", ".rb"]) do |file|
      assert_equal [0, "configuration OK\n", ""], checked("-c", file.path, "-b", "127.0.0.1:53", "-w", "2", "--zone", "example.org=#{zone_file}")
      file.write("nonsense\n")
      file.flush
      status, out, err = checked("-c", file.path, "--zone", "a.test=/none", "--zone", "b.test=#{zone_file("?")}", "--zone", "c.test",
        "--upstream", "x:y:z", "--recursion", "z", "--metrics", "u:v:w", "-b", "tls://127.0.0.1?cert=c&key=k", "-b", "nonsense://x",
        "--user", "absent-name")
      assert_equal [1, ""], [status, out]
      [/\Agyre dns: .*:1: undefined .*nonsense/, /^\/none: no such/, /:1: /, /^--zone c.test: write ORIGIN=FILE$/, /^"x:y:z" is not a name server/,
       /^"z" is not an IP address or network$/, /^"u:v:w" is not an address/, /^tls: the certificate c: /, /^"nonsense:\/\/x" is not an address/,
       /^there is no user absent-name$|^--user and --group are for root/].each { |line| assert_match line, err }
      assert_equal 10, err.lines.size, err
    end
  ensure
    @zone_files&.each(&:close!)
  end

  def test_a_mistake_in_the_rules_has_its_line_and_the_nearest_word
    Tempfile.create(["rules", ".rb"]) do |file|
      file.write("# rules\n\nzon \"office.lan\", \"office.zone\"\n")
      file.flush
      assert_match(/#{Regexp.escape(file.path)}:3: undefined method .zon. .*did you mean zone\?/, ruby(GYRE, "dns", "-c", file.path).err)
    end
  end

  private

  def checked(*words)
    output = ruby(GYRE, "dns", "--check", *words)
    [output.status.exitstatus, output.out, output.err]
  end

  # Yields an address, the process, its standard error, and the URL of its metrics.
  def with_server(*words, bind: "127.0.0.1:0")
    with_subprocess(*ruby_command(GYRE, "dns", "-b", bind, *words)) do |pid, _, err|
      line = err.gets
      line = err.gets until line.nil? || line.include?("listens on")
      port = line.to_s[/udp:\/\/127\.0\.0\.1:(\d+)/, 1] or flunk "it does not serve: #{line}"
      yield Address.new(port.to_i), pid, err, line[%r{metrics on (http://[\d.:]+)}, 1]
    end
  end

  def query(name = "a.test", type = "TXT") = Gyre::DNS::Message.query(name, type).encode

  # The strings of the rule's answer, from a new port each time.
  def texts_of(server) = ask(server, "a.test", "TXT").answers.last.resource.strings

  def answer(server, within_s:)
    exchange(server, query, within_s: within_s)&.then { |bytes| Gyre::DNS::Message.parse(bytes).answers.last&.resource&.strings&.first }
  rescue Errno::ECONNREFUSED
    nil
  end

  def free?(port)
    TCPServer.new("127.0.0.1", port).close
    UDPSocket.open { |socket| socket.bind("127.0.0.1", port) }
  rescue SystemCallError
    false
  end

  def as_nobody?
    [RbConfig.ruby, GYRE].all? { |path| Pathname.new(path).realpath.ascend.all? { |part| File.stat(part).mode.anybits?(0o1) } }
  end

  def address(server, name)
    ask(server, name, flags: Gyre::DNS::Message::RD).answers.last&.resource&.address.to_s
  end

  def hang_up(pid, err)
    Process.kill(:HUP, pid)
    err.gets
  end
end
