# frozen_string_literal: true

# Action Cable on the server's sockets (Web::Cable): its protocol, order, timers, ends, adapters,
# what an app overrides, and the way back to hijacked sockets. Run by `rake test:frameworks`, on
# Rubies before 3.2 with Rails 7.1.

require "test_helper"
require "gyre/cli/top"
require_relative "cables"

class CableSocketsTest < Minitest::Test
  include GyreTest::Cables

  APP = BEGINNING + <<~'RUBY'
    module ApplicationCable
      class Connection < ActionCable::Connection::Base
        identified_by :user
        def connect = (self.user = request.params["user"] || "anyone") && (reject_unauthorized_connection if user == "bad")
        def disconnect = $left = [*$left, user]
      end
    end
    class ChatChannel < ApplicationCable::Channel
      def subscribed = stream_from("chat")
      def echo(data) = transmit({ echo: data["text"], user: user })
      def slow(data) = sleep(data["s"]) && transmit({ slow: true })
      def say(data) = ActionCable.server.broadcast("chat", data["text"])
      def fail = raise("on purpose")
    end
    class LoudChannel < ChatChannel
      def transmit(data, via: nil) = super({ loud: data }, via: via)
    end
    class RoomChannel < ApplicationCable::Channel
      periodically(:tick, every: 0.05)
      def subscribed = params["id"] == 0 ? reject : stream_for(params["id"].to_s)
      def tick = transmit({ tick: params["id"] })
    end
    class BlockChannel < ApplicationCable::Channel
      def subscribed = stream_from("block", coder: ActiveSupport::JSON) { |data| transmit({ doubled: data * 2 }) }
      def leave = stop_all_streams
    end
    class PagesController < ActionController::Base
      def broadcast = ActionCable.server.broadcast(params[:to], JSON.parse(params[:data])).then { head(:ok) }
      def raw = ActionCable.server.broadcast(params[:to], params[:data], coder: nil).then { head(:ok) }
      def disconnect = ActionCable.server.remote_connections.where(user: params[:user]).disconnect.then { head(:ok) }
      def figures = render(json: [ActionCable.server.connections.size, Thread.list.size, $left])
      def publish = Gyre::Broadcast.publish(["action_cable", "shop:chat"], params[:data]).then { head(:ok) }
      def frames = render(json: $frames)
      def listen = ActiveSupport::Notifications.subscribe("transmit.action_cable") { $sent += 1 }.then { head(:ok) }
      def sent = render(plain: $sent)
    end
    $frames = $sent = 0
    Gyre::WebSocket.singleton_class.prepend(Module.new { def frame(*) = ($frames += 1) && super })
    ActionCable.server.config.cable = { "adapter" => ENV.fetch("ADAPTER", "async"), "channel_prefix" => "shop" }.with_indifferent_access
    CableApp.routes.append { %w[broadcast raw publish disconnect figures frames listen sent].each { |name| get name, to: "pages##{name}" } }
    CableApp.initialize!
    run CableApp
  RUBY

  def self.time_limit_s = 180

  # One boot for all of these.
  def test_cables_of_one_server
    serving("--metrics", "127.0.0.1:0", "--log-format", "common") do |url, program|
      speaks_the_protocol(url)
      ticks_until_the_channel_ends(url)
      ends_reach_the_application(url)
      sends_one_frame(url)
      shows_figures(url, program.text(:out)[%r{metrics on (\S+)/metrics}, 1])
      tells_listeners(url)
      is_in_the_access_log(url, program)
    end
  end

  def test_broadcasts_of_the_adapter_gyre_reach_all_workers
    serving("-w", "2", env: { "ADAPTER" => "gyre", "COMPRESSION" => "1" }) do |url|
      cables = Array.new(12) { |number| enter(url, "user#{number}").subscribed("ChatChannel") }
      cables.first.send("message", "ChatChannel", action: "say", text: "to all")
      assert_equal ["to all"], cables.map { |cable| cable.read["message"] }.uniq
      get(url, "/publish?data=7") # with the prefix
      assert_equal [7], cables.map { |cable| cable.read["message"] }.uniq
      # What streams with a handler get, or none can send, raises nothing at its publisher either.
      assert_equal %w[200 200], %w[/raw?to=chat&data=text /disconnect?user=user1].map { |path| get(url, path).code }
      assert_equal "remote", cables[1].read["reason"]
      assert_includes extensions(url), "permessage-deflate"
    end
  end

  def test_one_word_brings_hijacked_sockets_back
    serving(env: { "CABLE" => "hijack" }) do |url|
      cable = enter(url, "ann").subscribed("ChatChannel")
      get(url, "/broadcast?to=chat&data=1")
      assert_equal 1, cable.read["message"]
      assert_operator JSON.parse(get(url, "/figures").body)[1], :>, 4 # nio4r's and its pool's
    end
  end

  def test_another_version_keeps_hijacking_and_says_so
    app = APP.sub("module ApplicationCable", "ActionCable::Server::Worker.class_eval { def async_invoke(*) = nil }\n\\0")
    output = +""
    serving(app: app, output: output) { |url| assert_equal "404", get(url, "/cable").code }
    assert_includes output, "is not known here: its sockets are hijacked"
  end

  private

  def speaks_the_protocol(url)
    cable = enter(url, "ann")
    assert_equal "actioncable-v1-json", cable.socket.protocol
    cable.subscribed("ChatChannel").send("message", "ChatChannel", action: "echo", text: "hé")
    assert_equal({ "echo" => "hé", "user" => "ann" }, cable.read["message"])
    cable.send("subscribe", { channel: "RoomChannel", id: 0 })
    assert_equal "reject_subscription", cable.read["type"]
    cable.socket.write("no JSON")
    cable.send("subscribe", "Nothing").send("message", "ChatChannel", action: "fail")
    cable.send("message", "ChatChannel", action: "slow", s: 0.2).send("message", "ChatChannel", action: "echo", text: "after")
    assert_equal %w[slow echo], Array.new(2) { cable.read["message"].keys.first }
    ["no JSON", '"\ud800"'].each { |text| assert_equal "200", get(url, "/raw?to=chat&data=#{URI.encode_www_form_component(text)}").code }
    get(url, "/broadcast?to=chat&data=7")
    assert_equal({ "identifier" => '{"channel":"ChatChannel"}', "message" => 7 }, cable.read)
    cable.send("unsubscribe", "ChatChannel").subscribed("BlockChannel")
    get(url, "/broadcast?to=chat&data=8")
    get(url, "/broadcast?to=block&data=21")
    assert_equal({ "doubled" => 42 }, cable.read["message"])
    assert_equal ["disconnect", "unauthorized", nil], enter(url, "bad", nil).then { |bad| [*bad.read.values_at("type", "reason"), bad.read] }
    assert_equal "404", get(url, "/cable").code
    cable.socket.close
  end

  def ticks_until_the_channel_ends(url)
    cable = enter(url, "ann").subscribed({ channel: "RoomChannel", id: 5 })
    assert_equal [{ "tick" => 5 }] * 3, Array.new(3) { cable.read["message"] }
    cable.send("unsubscribe", { channel: "RoomChannel", id: 5 }).send("subscribe", "ChatChannel")
    message = cable.read
    message = cable.read while message["message"] == { "tick" => 5 }
    assert_equal "confirm_subscription", message["type"]
    get(url, "/broadcast?to=chat&data=1")
    assert_equal 1, cable.read["message"]
    cable.socket.close
  end

  def ends_reach_the_application(url)
    eventually { JSON.parse(get(url, "/figures").body)[0].zero? }
    left = JSON.parse(get(url, "/figures").body)[2]
    ann, bob = %w[ann bob].map { |user| enter(url, user).subscribed("ChatChannel") }
    get(url, "/disconnect?user=ann")
    assert_equal({ "type" => "disconnect", "reason" => "remote", "reconnect" => true }, ann.read)
    assert_nil ann.read
    bob.send("message", "ChatChannel", action: "echo", text: "stays")
    assert_equal "stays", bob.read["message"]["echo"]
    bob.socket.close
    eventually { JSON.parse(get(url, "/figures").body).values_at(0, 2) == [0, [*left, "ann", "bob"]] }
  end

  # And takes no threads.
  def sends_one_frame(url)
    cables = Array.new(20) { |number| enter(url, "user#{number}").subscribed("ChatChannel") }
    loud = enter(url, "loud").subscribed("LoudChannel")
    before = JSON.parse(get(url, "/frames").body)
    get(url, "/broadcast?to=chat&data=[1]")
    assert_equal [[1]], cables.map { |cable| cable.read["message"] }.uniq
    assert_equal({ "loud" => [1] }, loud.read["message"])
    assert_operator JSON.parse(get(url, "/frames").body) - before, :<=, 10 # two, and pings
    assert_operator JSON.parse(get(url, "/figures").body)[1], :<=, 4
    [*cables, loud].each { |cable| cable.socket.close }
  end

  def shows_figures(url, control)
    cables = Array.new(3) { enter(url, "ann").subscribed("ChatChannel") }
    cables.first.subscribed("BlockChannel")
    before = figures(control)
    assert_equal [3, 4], before.first(2)
    2.times { |number| get(url, "/broadcast?to=chat&data=#{number}") }
    get(url, "/broadcast?to=unheard&data=1")
    assert_equal [[0, 1]], cables.map { |cable| Array.new(2) { cable.read["message"] } }.uniq
    assert_equal 2, figures(control).last - before.last
    assert_match(/^3 cables  4 subscriptions  [\d.]+ broadcasts\/s$/, picture(control))
    cables.each { |cable| cable.socket.close }
    eventually { figures(control).first(2) == [0, 0] }
  end

  # Returns cables, subscriptions and broadcasts.
  def figures(control)
    text = get(control, "/metrics").body
    %w[cables cable_subscriptions cable_broadcasts_total].map { |name| Integer(text[/^gyre_#{name} (\d+)$/, 1]) }
  end

  # Returns the text of `gyre top`.
  def picture(control) = Gyre::CLI::Top::View.new(JSON.parse(get(control, "/status").body)).lines.join("\n")

  # At its begin, as other WebSockets are.
  def is_in_the_access_log(url, program)
    cable = enter(url, "logged")
    program.expect(%r{"GET /cable\?user=logged HTTP/1.1" 101 })
    cable.socket.close
  end

  def tells_listeners(url)
    cables = Array.new(3) { enter(url, "ann").subscribed("ChatChannel") }
    get(url, "/listen")
    get(url, "/broadcast?to=chat&data=1")
    assert_equal [1], cables.map { |cable| cable.read["message"] }.uniq
    assert_equal "3", get(url, "/sent").body
  end

  # Offers compression. Returns the head of the server's response.
  def extensions(url)
    fields = { "connection" => "upgrade", "upgrade" => "websocket", "sec-websocket-version" => "13", "sec-websocket-key" => "#{"A" * 22}==",
               "sec-websocket-extensions" => "permessage-deflate" }
    TCPSocket.open("127.0.0.1", URI(url).port) do |socket|
      socket.write("GET /cable HTTP/1.1\r\nhost: localhost\r\n#{fields.map { |name, value| "#{name}: #{value}\r\n" }.join}\r\n")
      socket.gets("\r\n\r\n")
    end
  end
end
