# frozen_string_literal: true

# Two workers over TLS for some minutes, under wrk, h2load, curl and clients that are slow on
# purpose, with rolling restarts on the way: no request is lost, nothing is logged as an error, and
# in the second half neither memory nor descriptors grow. `rake test:soak` runs it (SECONDS=600).

require "openssl"
require "test_helper"
require "support/processes"
require_relative "serving"

class WebSoakTest < Minitest::Test
  include GyreTest::Serving

  SECONDS = Integer(ENV.fetch("SECONDS", "600"))
  # When workers are replaced, and when memory is compared, in parts of the whole time.
  RESTARTS = [0.1, 0.2, 0.3, 0.4].freeze
  FORMER = (0.6..0.8).freeze
  LATTER = (0.8..1.0).freeze
  GROWTH = 1.05
  SAMPLE_S = 1
  UPLOAD = "u" * 300_000

  APP = <<~'RUBY'
    run(lambda do |env|
      case env["PATH_INFO"]
      when "/echo" then [200, { "content-type" => "text/plain" }, [env["rack.input"].read]]
      when "/stream"
        parts = Enumerator.new { |out| 20.times { sleep(0.005); out << "x" * 5_000 } }
        [200, { "content-type" => "text/plain" }, parts]
      when "/sleep" then sleep(0.2); [200, { "content-type" => "text/plain" }, ["hello"]]
      when "/error" then [500, { "content-type" => "text/plain" }, ["as asked"]]
      else [200, { "content-type" => "text/plain" }, ["hello"]]
      end
    end)
  RUBY

  # What a client of curl asks for: path, further words, status, body.
  REQUESTS = [
    ["/", [], "200", "hello"], ["/sleep", [], "200", "hello"], ["/error", [], "500", "as asked"], ["/stream", [], "200", "x" * 100_000],
    ["/file.bin", [], "200", "f" * 1_000_000], ["/file.bin", ["-r", "0-99"], "206", "f" * 100],
    ["/echo", ["--data-binary", "@upload", "-H", "content-type: text/plain"], "200", UPLOAD]
  ].freeze

  def setup
    %w[wrk h2load curl].each { |name| need_program(name) }
    @faults = Thread::Queue.new
    @counts = Hash.new(0)
    @samples = []
    @lock = Mutex.new
  end

  def test_nothing_is_lost_and_nothing_grows
    Dir.mktmpdir("gyre") do |folder|
      prepare(@folder = folder)
      flags = ["-w", "2", "--tls", "--static", "#{folder}/public", "--access-log", "/dev/null"]
      serve(*flags, app: APP, env: { "XDG_CACHE_HOME" => folder }) do |program|
        @url = program.urls.first
        @port = URI(@url).port
        soak(program)
        check
        program.signal(:TERM)
        assert_equal 0, program.status.exitstatus
        assert_equal "", program.text(:err)
      end
    end
  end

  private

  def prepare(folder)
    Dir.mkdir(File.join(folder, "public"))
    File.write(File.join(folder, "public", "file.bin"), "f" * 1_000_000)
    File.write(File.join(folder, "upload"), UPLOAD)
  end

  def soak(program)
    @began_s = monotonic_s
    clients = [client { wrk }, client { h2load }, *%w[--http1.1 --http2].map { |version| client { |turn| curl(version, turn) } },
               client { slow_reader }, client { slow_writer }, client { leaver }]
    RESTARTS.each.with_index(1) do |part, nth|
      wait_until(part, program)
      program.signal(:USR1)
      eventually(within_s: 120, what: "restart #{nth}") { program.text(:out).scan(/^Rolling restart: all workers run the new code$/).size == nth }
    end
    @restarted = true
    @began_s = [@began_s, monotonic_s - (SECONDS / 2.0)].max # a slow machine's restarts take none of the second half
    wait_until(1, program)
    clients.each(&:join)
  end

  def client
    Thread.new do
      (0..).each do |turn|
        break if part >= 1

        yield turn
      end
    rescue StandardError => error
      @faults << "#{error.class}: #{error.message} at #{error.backtrace.first}"
    end
  end

  def part = (monotonic_s - @began_s) / SECONDS

  def count(name, times = 1) = @lock.synchronize { @counts[name] += times }

  # Samples of each worker: when, which, resident bytes, descriptors.
  def wait_until(part, program)
    while self.part < part
      GyreTest::Processes.children_of(program.pid).each do |pid|
        next unless File.read("/proc/#{pid}/cmdline").start_with?("gyre: worker")

        @samples << [self.part, pid, Integer(File.read("/proc/#{pid}/statm").split[1]) * 4096, Dir.children("/proc/#{pid}/fd").size]
      rescue SystemCallError
        next # it has left
      end
      sleep(SAMPLE_S)
    end
  end

  def wrk
    out = nicely("wrk", "-t1", "-c16", "-d#{[SECONDS / 20, 1].max}s", "--timeout", "30s", @url).out
    @faults << out if out.match?(/Socket errors|Non-2xx/)
    count("wrk", out[/(\d+) requests in/, 1].to_i)
  end

  # Its requests on a connection that ends after a GOAWAY are not begun again.
  def h2load
    restarted = @restarted
    out = nicely("h2load", "-n", "1000", "-c", "4", "-m", "10", @url).out
    @faults << out unless out.match?(/ 0 3xx, 0 4xx, 0 5xx/)
    lost = 1000 - out[/(\d+) succeeded/, 1].to_i
    count("h2load", 1000 - lost)
    count("h2load, refused while workers are replaced", lost)
    @faults << "#{lost} lost at #{part}\n#{out}" if lost.positive? && restarted
  end

  def curl(version, turn)
    path, words, status, body = REQUESTS[turn % REQUESTS.size]
    result = nicely("curl", "-sk", version, "-w", "%{stderr}%{http_code} %{exitcode}", *words, @url + path)
    right = result.err.lines.last == "#{status} 0" && result.out == body
    @faults << "curl #{version} #{path} at #{part.round(3)}: #{result.err}, #{result.out.bytesize} bytes: #{result.out[0, 80]}" unless right
    count("curl #{version}")
  end

  def nicely(*command) = run_program("nice", *command, within_s: SECONDS + 120, chdir: @folder)

  def connect
    context = OpenSSL::SSL::SSLContext.new.tap { |settings| settings.verify_mode = OpenSSL::SSL::VERIFY_NONE }
    OpenSSL::SSL::SSLSocket.new(TCPSocket.new("127.0.0.1", @port), context).tap do |socket|
      socket.sync_close = true
      socket.connect
    end
  end

  def slow_reader
    socket = connect
    socket.write("GET /file.bin HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    head = socket.gets("\r\n\r\n")
    body = 0
    while (bytes = socket.read(50_000))
      body += bytes.bytesize
      sleep(0.05)
    end
    @faults << "slow reader: #{head.inspect}, #{body} bytes" unless head.to_s.start_with?("HTTP/1.1 200") && body == 1_000_000
    count("slow readers")
  ensure
    socket&.close
  end

  def slow_writer
    socket = connect
    socket.write("POST /echo HTTP/1.1\r\nhost: localhost\r\n")
    "content-length: 20\r\nconnection: close\r\n\r\n#{"s" * 20}".each_char do |character|
      socket.write(character)
      sleep(0.01)
    end
    response = socket.read
    @faults << "slow writer: #{response.inspect}" unless response.start_with?("HTTP/1.1 200") && response.end_with?("\r\n\r\n#{"s" * 20}")
    count("slow writers")
  ensure
    socket&.close
  end

  # Clients that close their sockets before, within and after a request.
  def leaver
    socket = connect
    socket.write(["", "GET /slow", "GET /sleep HTTP/1.1\r\nhost: localhost\r\n\r\n"].sample)
    socket.io.close
    count("clients that left")
    sleep(0.05)
  end

  def check
    workers = @samples.select { |when_, *| LATTER.cover?(when_) }.map { |sample| sample[1] }.uniq
    figures = workers.map { |pid| [pid, [2, 3].map { |column| means(pid, column) }] }
    puts "soak: #{@counts.map { |name, times| "#{times} by #{name}" }.join("; ")}"
    figures.each do |pid, (bytes, files)|
      puts format("  worker %s: %.1f MB, then %.1f; %.1f descriptors, then %.1f", pid, *bytes.map { |b| b / 1e6 }, *files)
    end
    faults = Array.new(@faults.size) { @faults.pop }
    assert_empty faults.first(5), "#{faults.size} faults"
    assert_equal 2, workers.size
    figures.each do |pid, (bytes, files)|
      assert_operator bytes.last, :<=, bytes.first * GROWTH, "memory of worker #{pid}"
      assert_operator files.last, :<=, [files.first * GROWTH, files.first + 2].max, "descriptors of worker #{pid}"
    end
  end

  # In the third and in the last quarter or so.
  def means(pid, column)
    [FORMER, LATTER].map do |range|
      values = @samples.select { |sample| sample[1] == pid && range.cover?(sample[0]) }.map { |sample| sample[column] }
      values.sum.to_f / [values.size, 1].max
    end
  end
end
