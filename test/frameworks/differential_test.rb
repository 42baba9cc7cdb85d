# frozen_string_literal: true

# One application of Rails (differential_app.ru) under Puma and under Gyre: 200 requests, several at
# once, and sockets of Action Cable get the same responses. Puma decides. Run by `rake
# test:frameworks`, on Rubies before 3.2 with Rails 7.1.

require "test_helper"
require "json"
require "net/http"
require "support/chromium"
require "web/serving"
require "websocket/serving"
require_relative "bundled"

class DifferentialTest < Minitest::Test
  include GyreTest::Serving
  include GyreTest::WebSocketServing
  include GyreTest::Bundled

  APP = File.join(__dir__, "differential_app.ru")
  # Differs from request to request, or belongs to the connection.
  OWN_HEADERS = %w[date x-request-id x-runtime set-cookie connection keep-alive transfer-encoding content-length server].freeze
  STATES = [{}, { "X-Tenant" => "acme" }, { "X-Tenant" => "other", "X-Locale" => "de", "X-Zone" => "Tokyo" },
            { "X-Tenant" => "third", "X-Role" => "reading", "X-Zone" => "Hawaii" }].freeze
  # Run in each of the four states, and by two users.
  IN_STATES = %w[/me /enumerator /nested /zip /graphql /streamed /stream /events /export /job /leased /queries].freeze
  OTHERS = [
    ["GET", "/nowhere"], ["GET", "/broken"], ["GET", "/empty"], ["GET", "/throw_out"], ["HEAD", "/me"], ["HEAD", "/large"], ["GET", "/large"],
    ["GET", "/data"], ["GET", "/file"], ["GET", "/file", { "Range" => "bytes=0-9" }], ["GET", "/cached"], ["GET", "/cached?version=2"],
    ["GET", "/cached", { "If-Modified-Since" => "Thu, 01 Jan 2026 00:00:00 GMT" }], ["GET", "/headers_too", { "X-Sent" => "a, b" }],
    ["GET", "/formats"], ["GET", "/formats", { "Accept" => "application/json" }], ["GET", "/formats.json"], ["GET", "/formats.xml"],
    ["GET", "/formats", { "Accept" => "nonsense" }], ["GET", "/me?a[b][]=1&a[b][]=2"], ["GET", "/me?%zz"], ["GET", "/%ff"], ["POST", "/nowhere"],
    ["OPTIONS", "/me"], ["PUT", "/put", {}, "body"], ["PATCH", "/put", {}, "ß"], ["DELETE", "/put"], ["POST", "/put"],
    ["POST", "/login", {}, ""], ["POST", "/login", {}, "user=ann"], ["POST", "/form?q=1", {}, "a[b]=1&c=%C3%A4"], ["POST", "/form", {}, "a[b]=1&a=2"],
    ["POST", "/form", { "X-HTTP-Method-Override" => "PATCH" }, "a=1"], ["POST", "/raw", {}, "a=1&b=2"],
    ["POST", "/raw", { "Content-Type" => "text/plain" }, "x" * 100_000], ["POST", "/raw", { "Content-Type" => "application/json" }, "{}"],
    ["POST", "/json", { "Content-Type" => "application/json" }, '{"a":{"b":[1,null]}}'],
    ["POST", "/json", { "Content-Type" => "application/json" }, "{"],
    ["POST", "/json", { "Content-Type" => "application/json" }, "[1]"], ["POST", "/upload", {}, "text=1"],
    ["POST", "/graphql", {}, "query={direct}"], ["POST", "/graphql", {}, "query={nothing}"]
  ].freeze
  UPLOAD = "--x\r\ncontent-disposition: form-data; name=\"file\"; filename=\"ä.bin\"\r\ncontent-type: image/png\r\n\r\n#{"p" * 300_000}\r\n" \
           "--x\r\ncontent-disposition: form-data; name=\"text\"\r\n\r\nhäh\r\n--x--\r\n"
  REQUESTS = [
    *IN_STATES.product(STATES, [nil, "ann"]).map { |path, headers, user| ["GET", path, headers, nil, user] }, *OTHERS,
    *Array.new(4) { ["POST", "/upload", { "Content-Type" => "multipart/form-data; boundary=x" }, UPLOAD, "ann"] },
    *Array.new(60) { |number| ["POST", "/inside", STATES[number % 3], "", %w[ann bob][number % 2]] }
  ].freeze
  AT_ONCE = 8

  def self.time_limit_s = 600

  def bundle = RUBY_VERSION < "3.2" ? "rails71" : super

  # Without transactions on Rails 7.1: SQLite's wait for another writer holds up the whole thread
  # there, and the writer may be a fiber of it.
  def requests = bundle == "rails71" ? REQUESTS.grep_v(->(request) { request[1] == "/inside" }) : REQUESTS

  def test_puma_and_gyre_give_the_same_responses
    puma, gyre = %w[puma gyre].map { |server| serving(server) { |port| [responses(port), cable(port)] } }
    assert_operator requests.size, :>=, bundle == "rails71" ? 130 : 190
    different = requests.each_index.reject { |index| puma[0][index] == gyre[0][index] }
    told = different.map { |index| [requests[index].first(3), requests[index][4], puma[0][index], gyre[0][index]].inspect[0, 1500] }
    assert_empty told.join("\n"), @log
    assert_equal puma[1], gyre[1]
    inside = requests.each_index.select { |index| requests[index][1] == "/inside" }
    assert_equal ["[1, 1, 1]"].first(inside.size), inside.map { |index| gyre[0][index].last }.uniq
  end

  private

  def serving(server)
    Dir.mktmpdir do |folder|
      command = { "puma" => ["-e", "load Gem.bin_path('puma', 'puma')", "--", "-q", "-t", "5:5", "-b", "tcp://127.0.0.1:0", APP],
                  "gyre" => [EXE, "serve", APP, "-b", "127.0.0.1:0"] }.fetch(server)
      environment = bundled("RACK_ENV" => "production", "SERVER" => server, "FOLDER" => folder, "WEB_CONCURRENCY" => nil)
      with_subprocess(environment, RbConfig.ruby, *command, chdir: folder) do |pid, out, err|
        program = Program.new(self, pid, out, err, folder)
        yield eventually(within_s: 120, what: "#{server} that listens") { program.text(:out)[%r{istening on http://127\.0\.0\.1:(\d+)}, 1] }.to_i
      ensure
        @log = File.read("#{folder}/log.txt")
      end
    end
  end

  # Status, headers and body of each request.
  def responses(port)
    cookies = %w[ann bob].to_h { |user| [user, login(port, user)] }
    todo = requests.each_with_index.to_a.each_with_object(Queue.new) { |each, queue| queue << each }.close
    got = []
    Array.new(AT_ONCE) do
      Thread.new do
        Net::HTTP.start("127.0.0.1", port, read_timeout: 60) do |http|
          while (request, index = todo.pop)
            got[index] = response(http, *request, cookies: cookies)
          end
        end
      end
    end.each(&:join)
    got
  end

  def response(http, verb, path, headers = {}, body = nil, user = nil, cookies: {})
    headers = { "Accept" => "*/*", "Accept-Encoding" => "identity", "Host" => "app.test", **headers }
    headers["Content-Type"] ||= "application/x-www-form-urlencoded" if body || verb == "POST"
    headers["Cookie"] = cookies.fetch(user) if user
    answer = http.send_request(verb, path, body, headers)
    names = answer.get_fields("set-cookie").to_a.map { |cookie| cookie[/\A[^=]+/] }.sort
    [answer.code, answer.to_hash.except(*OWN_HEADERS), names, answer.body.to_s]
  end

  def login(port, user)
    answer = Net::HTTP.post(URI("http://127.0.0.1:#{port}/login"), "user=#{user}", "host" => "app.test")
    assert_equal "303", answer.code
    answer.get_fields("set-cookie").map { |cookie| cookie[/\A[^;]+/] }.join("; ")
  end

  # What two clients of Action Cable get.
  def cable(port)
    refused = Net::HTTP.get_response(URI("http://127.0.0.1:#{port}/cable"))
    cables = %w[ann bob].map { |user| Cable.new(port, "/cable?user=#{user}") }
    rooms = ["welcome", *cables.map { |cable| [cable.next, cable.command("subscribe").next] }]
    identities = cables.map { |cable| [cable.say(action: "identify").next, cable.say(action: "identify").next] }
    messages = cables.map { |cable| cable.say(action: "say", text: "from #{cable.path}") && cables.map(&:next) }
    rejected = cables.first.command("subscribe", room: nil).next
    cables.each(&:close)
    [refused.code, rooms, identities, messages, rejected]
  end

  # A client of Action Cable: a blocking socket.
  class Cable
    attr_reader :path

    def initialize(port, path)
      @path = path
      @io = TCPSocket.new("127.0.0.1", port)
      @io.write("GET #{path} HTTP/1.1\r\nhost: app.test\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n" \
                "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-protocol: actioncable-v1-json\r\n\r\n")
      raise "no socket" unless @io.gets("\r\n\r\n").start_with?("HTTP/1.1 101")
    end

    def command(name, room: "one", **more)
      send({ command: name, identifier: JSON.generate({ channel: "RoomChannel", room: room }.compact), **more })
      self
    end

    def say(**data) = command("message", data: JSON.generate(data))

    # Returns the next message other than a ping.
    def next
      loop do
        length = @io.read(2).getbyte(1)
        length = @io.read(2).unpack1("n") if length == 126
        message = JSON.parse(@io.read(length).force_encoding("UTF-8"))
        return message unless message["type"] == "ping"
      end
    end

    def close = @io.close

    private

    def send(message) = @io.write(GyreTest::WebSocketServing.frame(GyreTest::WebSocketServing::TEXT, JSON.generate(message)))
  end
end
