# frozen_string_literal: true

# Gems that hijack their WebSockets, over HTTP/1.1 and in streams of HTTP/2 (RFC 8441): Action Cable
# with a page in Chromium, websocket-driver with a client of the tests' own. Run by `rake
# test:frameworks`.

require "test_helper"
require "json"
require "socket"
require "support/certificates"
require "support/chromium"
require "support/h2_client"
require "web/serving"
require "websocket/serving"
require_relative "bundled"

class CableTest < Minitest::Test
  include GyreTest::Serving
  include GyreTest::WebSocketServing
  include GyreTest::Bundled

  CABLE = <<~'RUBY'
    require "rails"
    require "action_controller/railtie"
    require "action_cable/engine"
    class CableApp < Rails::Application
      config.eager_load = true
      config.secret_key_base = "0" * 64
      config.hosts.clear
      config.logger = Logger.new($stderr)
      config.log_level = :warn # messages would fill the pipe to the test
    end
    class PagesController < ActionController::Base
      def show = render(html: "<title>page</title><link rel=icon href=data:,>".html_safe)
    end
    module ApplicationCable
      Connection = Class.new(ActionCable::Connection::Base)
      Channel = Class.new(ActionCable::Channel::Base)
    end
    class RoomChannel < ApplicationCable::Channel
      def subscribed = stream_from("room")
      def say(data) = ActionCable.server.broadcast("room", { text: data["text"], over: connection.env["SERVER_PROTOCOL"] })
    end
    ActionCable.server.config.cable = { "adapter" => "async" }
    CableApp.routes.append { get "/", to: "pages#show" }
    CableApp.initialize!
    run CableApp
  RUBY

  # Action Cable's own protocol.
  PAGE = <<~JAVASCRIPT
    new Promise((resolve, reject) => {
      const socket = new WebSocket(location.origin.replace("http", "ws") + "/cable", ["actioncable-v1-json"]);
      const send = (command, more) => socket.send(JSON.stringify({ command, identifier: '{"channel":"RoomChannel"}', ...more }));
      const say = (text) => send("message", { data: JSON.stringify({ action: "say", text }) });
      socket.onerror = () => reject(new Error("the socket failed"));
      socket.onmessage = ({ data }) => {
        const { type, message } = JSON.parse(data);
        if (type === "welcome") send("subscribe");
        if (type === "confirm_subscription") say("x".repeat(100000));
        if (message) { socket.onclose = ({ code }) => resolve([message.text.length, message.over, socket.protocol, code]); socket.close(4000); }
      };
    })
  JAVASCRIPT

  DRIVER = <<~'RUBY'
    require "websocket/driver"
    class Talk
      attr_reader :env, :url

      def initialize(env)
        @env = env
        @url = "ws://#{env["HTTP_HOST"]}#{env["PATH_INFO"]}"
        @io = env["rack.hijack"].call
        @driver = WebSocket::Driver.rack(self, protocols: %w[echo])
        @driver.on(:message) { |event| event.data.encoding == Encoding::UTF_8 ? @driver.text(event.data) : @driver.binary(event.data) }
        @driver.on(:close) { @io.close }
      end

      def write(bytes) = @io.write(bytes)

      def run
        @driver.start
        @driver.parse(@io.readpartial(65_536)) until @io.closed?
      rescue EOFError, IOError
        @io.close
      end
    end
    run(lambda do |env|
      next [404, {}, []] unless WebSocket::Driver.websocket?(env)

      talk = Talk.new(env)
      env["PATH_INFO"] == "/thread" ? Thread.new { talk.run } : talk.run
      [-1, {}, []]
    end)
  RUBY

  def self.time_limit_s = 120

  def http2? = true

  def tls? = true

  def test_action_cable_and_a_page
    skip "Action Cable is not tested with a page: no Chromium is installed (apt-get install chromium)" unless Chromium.program
    serve_over_tls(CABLE, more: %w[-b 127.0.0.1:0]) do |program|
      Chromium.open(Chromium::ANY_CERTIFICATE) do |browser|
        program.urls.each do |url|
          browser.visit(url.sub("127.0.0.1", "localhost"))
          over = url.start_with?("https") ? "HTTP/2.0" : "HTTP/1.1"
          assert_equal [100_000, over, "actioncable-v1-json", 4000], browser.evaluate(PAGE)
        end
        assert_empty browser.complaints
      end
    end
  end

  def test_websocket_driver_over_http2
    serve_over_tls(DRIVER) do |program|
      h2 = GyreTest::H2Client.new(self, GyreTest::H2Client.tls(TCPSocket.new("127.0.0.1", URI(program.urls.first).port)))
      %w[/thread /fiber].each do |path|
        peer = open_stream(h2, path, sec_websocket_protocol: "echo")
        assert_equal "echo", peer.handshake["sec-websocket-protocol"]
        ["häh", "x" * 1_000_000].each { |text| assert_equal text, peer.text(text).message }
        assert_equal "\xff\0".b, peer.binary("\xff\0").message
        assert_equal [10, "ping"], peer.ping("ping").frame.to_a.first(2)
        assert_equal 4001, peer.close(4001, "done").closed.first
        assert peer.ended?
      end
    ensure
      h2&.close
    end
  end

  private

  def serve_over_tls(app, more: [], &block)
    Dir.mktmpdir do |folder|
      certificate, key = GyreTest::Certificates.new(folder).issue("server")
      File.write("#{folder}/config.ru", app)
      command = [RbConfig.ruby, EXE, "serve", "--extended-connect",
                 "-b", "ssl://127.0.0.1:0?cert=#{certificate}&key=#{key}", *more]
      with_subprocess(bundled("RACK_ENV" => "production"), *command, chdir: folder) do |pid, out, err|
        program = Program.new(self, pid, out, err, folder)
        program.expect(/Use Ctrl-C to stop/)
        block.call(program)
        program.signal(:TERM)
        assert_equal 0, program.status.exitstatus, program.text(:err)
      end
    end
  end
end
