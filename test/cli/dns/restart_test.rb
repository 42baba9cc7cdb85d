# frozen_string_literal: true

# `gyre dns` replaces its workers (USR1) and its whole program (USR2) while questions come by UDP
# and TCP: none is lost. Its clients ask once, each time from a new port.
require "test_helper"
require "support/dns_serving"
require "support/processes"
require "tmpdir"

class CLIDNSRestartTest < Minitest::Test
  include GyreTest::DNSServing

  # A program of its own with flags that a file has, as a deploy may change them.
  PROGRAM = <<~RUBY
    require "gyre/cli"
    exit Gyre::CLI.start(["dns", *File.read("flags").split, *ARGV])
  RUBY
  KINDS = { USR1: "Rolling", USR2: "Hot" }.freeze
  ALONE = /listens on/.freeze

  # A running server: its process, its port, its folder with rules and flags, and what it prints.
  Running = Struct.new(:test, :pid, :folder) do
    def port = @port ||= printed[%r{udp://127\.0\.0\.1:(\d+)}, 1].to_i

    def printed = File.read(File.join(folder, "printed"))

    def write(name, text) = File.write(File.join(folder, name), text)

    def rules = write("rules.rb", "match('a.test') { |t| t.respond!(Process.pid.to_s, '#{yield}') }\n#{RULES}")

    # Sends the signal, and waits for the line that it leads to.
    def signal(name, line = /^#{KINDS[name]} restart: all workers run the new code$/)
      before = printed.scan(line).size
      Process.kill(name, pid)
      test.eventually(within_s: 30, what: "#{line.inspect} after #{name}: #{printed}") { printed.scan(line).size > before }
    end
  end
  RULES = <<~RUBY
    match('slow.test') { |t| sleep(0.4) && t.respond!('slow') }
  RUBY

  # Asks in a thread, one question after another, until it has finished; never twice.
  class Client
    attr_reader :failures, :answers

    def initialize(&ask)
      @failures, @answers = [], []
      @thread = Thread.new { work(ask) until @done }
    end

    def finish
      @done = true
      @thread.join
    end

    private

    def work(ask)
      answer = ask.call
      answer ? @answers.push(answer) : @failures.push("no answer")
      sleep 0.001
    rescue StandardError => error
      @failures.push("#{error.class}: #{error.message}")
    end
  end

  def test_no_question_is_lost_while_workers_and_the_program_are_replaced
    serving("-w 2") do |server|
      under_questions(server) do |clients|
        server.signal(:USR2)
        server.signal(:USR1)
        server.rules { "two" }
        server.signal(:USR2)
        server.signal(:USR2)
        eventually { clients.first.answers.last.last == "two" }
      end
      assert_equal "two", Array.new(20) { text(server).last }.uniq.join
    end
  end

  def test_no_question_is_lost_while_a_server_without_workers_is_replaced
    serving("") do |server|
      under_questions(server) do |clients|
        server.rules { "two" }
        server.signal(:USR2, ALONE)
        server.signal(:USR2, ALONE)
        eventually { clients.first.answers.last.last == "two" }
      end
      assert_equal server.pid, text(server).first.to_i
    end
  end

  def test_questions_in_the_sockets_of_a_worker_that_stands_still_are_answered_by_its_successor
    serving("-w 1") do |server|
      worker = text(server).first.to_i
      GyreTest::Processes.stop(worker)
      sockets = Array.new(30) { UDPSocket.new.tap { |socket| socket.connect("127.0.0.1", server.port) && socket.send(question, 0) } }
      server.signal(:USR2, /^Hot restart: the new program is rehearsed$/)
      answers = sockets.map { |socket| socket.wait_readable(20) && parse(socket.recv(4096)).first.to_i }
      refute_includes answers, nil
      refute_includes answers, worker
    ensure
      Process.kill(:CONT, worker) if worker
      sockets&.each(&:close)
    end
  end

  def test_rules_that_wait_answer_before_the_end_of_their_worker_or_server
    { "-w 1" => %i[USR1 USR2 TERM], "" => %i[USR2 TERM] }.each do |flags, signals|
      serving(flags) do |server|
        signals.each do |name|
          waiting = [Thread.new { by_udp(server, "slow.test") }, Thread.new { by_tcp(server, "slow.test") }]
          sleep 0.1 # they are asked
          name == :TERM ? Process.kill(name, server.pid) : server.signal(name, *(ALONE if flags.empty?))
          assert_equal [["slow"], ["slow"]], waiting.map(&:value), "#{name} #{flags}"
        end
        assert_equal 0, Process.wait2(server.pid).last.exitstatus
      end
    end
  end

  def test_broken_rules_refuse_the_restart_and_the_former_program_goes_on
    { "-w 1" => /^.*Hot restart: .*rules\.rb:1: undefined .*nonsense/, "" => /^gyre dns: not restarted: .*rules\.rb:1: undefined .*nonsense/ }
      .each do |flags, refusal|
      serving(flags) do |server|
        before = text(server)
        server.write("rules.rb", "nonsense\n")
        server.signal(:USR2, refusal)
        assert_equal before, text(server)
        server.write("rules.rb", "match('a.test') { |t| t.respond!('0', 'three') }\n")
        server.signal(:USR2, *(ALONE if flags.empty?))
        assert_equal "three", text(server).last
      end
    end
  end

  def test_other_flags_take_effect_and_what_is_given_up_is_closed
    serving("-w 2 --pidfile one.pid --metrics 127.0.0.1:0") do |server|
      flags = File.read(File.join(server.folder, "flags"))
      other = free_port
      server.write("flags", flags.sub("-w 2", "-w 3").sub("one.pid", "two.pid").sub(/--metrics \S+/, "") + " -b udp://127.0.0.1:#{other}")
      under_questions(server) { server.signal(:USR2) }
      eventually(what: "three workers") { Array.new(60) { text(server).first }.uniq.size == 3 }
      assert_equal "one", text(Struct.new(:port).new(other)).last
      assert_equal ["two.pid"], Dir.children(server.folder).grep(/pid/)
      server.write("flags", flags.sub("-w 2", "-w 1"))
      under_questions(server) { server.signal(:USR2) }
      eventually(what: "one worker") { Array.new(60) { text(server).first }.uniq.size == 1 }
      UDPSocket.open { |socket| socket.bind("127.0.0.1", other) } # is free again
    end
  end

  def test_an_end_during_the_rehearsal_ends_server_and_rehearsal
    ["-w 1", ""].each do |flags|
      serving(flags) do |server|
        server.write("rules.rb", "if ARGV.include?('--check')\n  File.write('rehearses', \"\#{Process.pid}\\n\")\n  sleep\nend\n")
        Process.kill(:USR2, server.pid)
        path = File.join(server.folder, "rehearses")
        rehearsal = eventually { File.read(path)[/\A\d+(?=\n)/] if File.exist?(path) }.to_i
        Process.kill(:INT, server.pid)
        assert_equal 0, Process.wait2(server.pid).last.exitstatus
        assert GyreTest::Processes.ended?(rehearsal)
      end
    end
  end

  private

  # Yields a server that has these flags, and rules with the word "one".
  def serving(flags)
    Dir.mktmpdir do |folder|
      server = Running.new(self, nil, folder)
      server.rules { "one" }
      server.write("flags", "#{flags} -c rules.rb -b 127.0.0.1:0")
      server.write("program.rb", PROGRAM)
      files = { chdir: folder, out: File.join(folder, "printed"), err: %i[child out] }
      with_subprocess(*ruby_command("program.rb"), **files) do |pid, _, _|
        server.pid = pid
        eventually(within_s: 30, what: "it serves") { server.printed.match?(ALONE) }
        yield server
      end
    end
  end

  # Asks all the time during the block, and checks that each question was answered.
  def under_questions(server)
    clients = [Client.new { by_udp(server) }, Client.new { by_udp(server, "slow.test") },
               Client.new { by_tcp(server) }, Client.new { by_tcp(server, "slow.test") }]
    eventually { clients.all? { |client| client.answers.any? || client.failures.any? } }
    yield clients
  ensure
    clients&.each(&:finish)
    assert_empty clients.flat_map(&:failures)
  end

  def question(name = "a.test") = Gyre::DNS::Message.query(name, "TXT").encode

  # The strings of the answer; nil without a response in time.
  def by_udp(server, name = "a.test") = exchange(server, question(name))&.then { |bytes| parse(bytes) }

  # Two questions on a connection; the strings of the first answer, nil unless both come.
  def by_tcp(server, name = "a.test")
    TCPSocket.open("127.0.0.1", server.port) do |socket|
      2.times { socket.write(framed(question(name))) }
      Array.new(2) { read_framed(socket)&.then { |message| message.answers.last&.resource&.strings } }.then { |both| both.first if both.all? }
    end
  end

  def parse(bytes) = Gyre::DNS::Message.parse(bytes).answers.last&.resource&.strings

  def text(server) = by_udp(server)

  def free_port = UDPSocket.open { |socket| socket.bind("127.0.0.1", 0) && socket.addr[1] }
end
