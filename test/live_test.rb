# frozen_string_literal: true

# Live pages over their sockets, as script.js talks to them; examples_test and test/live/ have the
# browser's side.

require "test_helper"
require "http/contract"
require "websocket/serving"
require "gyre/live"

module LivePages
  include GyreTest::WebSocketServing

  class Counter < Gyre::Live
    keep :count
    on(:more) { |by| @count += Integer(by) }
    on(:name) { |fields| @name = fields.fetch("name") }
    on(:fail) { |_| raise "never mind" }
    template <<~'ERB'
      <h1>count</h1>
      <p><%= @count %></p>
      <p><%= @name %></p>
      <i><%= raw "<b>#{connected?}</b>" %></i>
      <hr>
    ERB

    def mount(env)
      @count = 0
      @name = env["QUERY_STRING"]
    end
  end

  # Keeps a list.
  class Basket < Gyre::Live
    keep :things
    on(:put) { |thing| @things << thing }

    def mount(_env) = @things = []

    def render = raw("things:\n#{@things.join(" ")}")
  end

  # Shows what is published, and how often it was rendered.
  class News < Gyre::Live
    def mount(_env)
      @news = []
      @rendered = 0
      subscribe(:live_news) { |message| @news << message }
    end

    on(:say) { |message| Gyre::Broadcast.publish(:live_news, message) }
    on(:parse) { |text| JSON.parse(text) }

    def render
      @rendered += 1
      raw("#{@news.join(" ")}\n#{"often" if @rendered > 5}")
    end
  end

  # Renders all HTML lines that a page holds after the messages that it got.
  class Document
    attr_reader :token

    def initialize(peer, token: nil)
      @peer = peer
      @lines = []
      @token = token
      send("", token)
    end

    def send(event, value)
      @peer.text(JSON.generate([event, value]))
      self
    end

    # Returns the lines after the next message, and how many came.
    def changed
      first, dropped, added, token = JSON.parse(@peer.message)
      @lines[first, dropped] = added
      @token = token || @token
      [@lines.join("\n"), added.size]
    end

    def html = changed.first
  end

  def test_a_page_is_rendered_with_everything_escaped_and_a_policy_for_its_script
    serve(Counter) do |served|
      response = connect(served).get("GET /?%3Cb%3E&<i> HTTP/1.1")
      assert_equal 200, response.status
      assert_includes response.body, "<p>%3Cb%3E&amp;&lt;i&gt;</p>"
      assert_includes response.body, "<b>false</b>"
      nonce = response.body[/<script nonce="([^"]+)">/, 1]
      assert_includes response["content-security-policy"], "script-src 'nonce-#{nonce}'"
    end
  end

  def test_an_event_changes_the_lines_that_differ
    serve(Counter) do |served|
      page = Document.new(open_websocket(served, "/?me"))
      assert_equal "<h1>count</h1>\n<p>0</p>\n<p>me</p>\n<i><b>true</b></i>\n<hr>\n", page.html
      assert_equal ["<h1>count</h1>\n<p>2</p>\n<p>me</p>\n<i><b>true</b></i>\n<hr>\n", 1], page.send("more", "2").changed
      html, lines = page.send("name", { "name" => "<you>" }).changed
      assert_includes html, "<p>2</p>\n<p>&lt;you&gt;</p>"
      assert_equal 1, lines
    end
  end

  # Shows the state that its code finds, as Active Support keeps it.
  class Stateful < Gyre::Live
    def mount(_env)
      @seen = []
      note("mounted")
      subscribe(:live_state) { |message| note(message) }
      every(0.01) { note("every") if @seen.size.between?(2, 4) }
    end

    on(:note) { |name| note(name) }
    template "<p><%= @seen.inspect %></p>\n"

    def note(name)
      @seen << Fiber.current.instance_variable_get(:@user)
      Fiber.current.instance_variable_set(:@user, name)
    end
  end

  def test_each_event_of_a_page_begins_without_the_state_of_an_earlier_one
    serve(Stateful) do |served|
      page = Document.new(open_websocket(served)).tap(&:html)
      page.send("note", "ann").html
      served.on_loop { Gyre::Broadcast.publish(:live_state, "bob") }
      html = ""
      html = page.html until html.scan("nil").size >= 5 || html.match?(/quot/)
      refute_match(/quot/, html)
    end
  end

  def test_a_page_that_comes_again_has_the_variables_that_are_kept
    serve(Counter) do |served|
      page = Document.new(open_websocket(served, "/?a"))
      page.html
      page.send("more", "5").html
      page.send("name", { "name" => "lost" }).html
      again = Document.new(open_websocket(served, "/?a"), token: page.token)
      assert_includes again.html, "<p>5</p>\n<p>a</p>"
    end
  end

  def test_a_kept_list_that_a_handler_has_changed_in_place_comes_again
    serve(Basket) do |served|
      page = Document.new(open_websocket(served))
      page.html
      page.send("put", "apple").html
      assert_includes Document.new(open_websocket(served), token: page.token).html, "apple"
    end
  end

  def test_a_state_that_was_not_signed_here_is_not_taken
    serve(Counter) do |served|
      text = [JSON.generate([Time.now.to_i / 3600, { "@count" => [99, ""] }])].pack("m0")
      ["#{text}.#{"0" * 64}", text, "", "#{text}.", sign(News, { "@count": 99 }), sign(Counter, { "@count": 99 }, scope: "other"), 7].each do |token|
        assert_includes Document.new(open_websocket(served), token: token).html, "<p>0</p>"
      end
    end
  end

  def test_only_kept_variables_are_restored
    serve(Counter) do |served|
      token = sign(Counter, { "@count": 3, "@name": "x", "@page": nil })
      assert_includes Document.new(open_websocket(served, "/?a"), token: token).html, "<p>3</p>\n<p>a</p>"
    end
  end

  def test_an_invalid_event_closes_the_page
    serve(Counter) do |served|
      codes = { '["instance_eval","1"]' => 1008, '["mount",1]' => 1008, "[[]]" => 1008, "{}" => 1008, "7" => 1008,
                "nonsense" => 1007, "[" * 1000 => 1007 }
      codes.each do |text, code|
        peer = open_websocket(served)
        Document.new(peer).html
        assert_equal code, peer.text(text).closed.first, text
      end
    end
  end

  def test_a_value_that_no_page_could_be_sent_ends_its_own_page_only
    serve(News) do |served|
      other = Document.new(open_websocket(served)).tap(&:html)
      ['["say","\\udc00"]', '["say",{"\\udc00":1}]', '["say",1e999]', "[\"say\",\"\xff\"]"].each do |message|
        peer = open_websocket(served)
        Document.new(peer).html
        assert_equal 1007, peer.binary(message).closed.first, message
      end
      Gyre::Broadcast.publish(:live_news, "good news")
      assert_includes other.html, "good news"
    end
  end

  def test_an_error_of_json_in_a_handler_is_logged
    serve(News) do |served|
      peer = open_websocket(served)
      Document.new(peer).send("parse", "nonsense").html
      assert_equal 1011, peer.closed.first
      expect_errors(served, /JSON::ParserError/)
    end
  end

  def test_an_error_is_logged_and_the_page_comes_again_with_its_state
    serve(Counter) do |served|
      peer = open_websocket(served)
      page = Document.new(peer)
      page.html
      page.send("more", "4").html
      page.send("fail", nil)
      assert_equal 1011, peer.closed.first
      assert_includes Document.new(open_websocket(served), token: page.token).html, "<p>4</p>"
      expect_errors(served, /never mind/)
    end
  end

  # Fails in a block that runs by itself, by an exception that is no StandardError.
  class Unfinished < Gyre::Live
    template "here"

    def mount(_env) = every(0.01) { raise NotImplementedError, "not yet" }
  end

  def test_whatever_a_block_raises_is_logged_and_ends_its_page_alone
    serve(->(env) { (env["PATH_INFO"] == "/unfinished" ? Unfinished : News).call(env) }) do |served|
      other = Document.new(open_websocket(served)).tap(&:html)
      peer = open_websocket(served, "/unfinished")
      frame = peer.frame until frame&.opcode == CLOSE
      assert_equal 1011, frame.payload.unpack1("n")
      expect_errors(served, /not yet/)
      Gyre::Broadcast.publish(:live_news, "news")
      assert_includes other.html, "news"
    end
  end

  def test_a_mistyped_event_is_a_line_in_the_log_in_development
    was = ENV.fetch("RACK_ENV", nil)
    %w[development production].each do |environment|
      ENV["RACK_ENV"] = environment
      serve(Counter) do |served|
        peer = open_websocket(served)
        Document.new(peer).html
        assert_equal 1008, peer.text('["moer",1]').closed.first
        expect_errors(served, /Counter has no handler of the event "moer"/) if environment == "development"
      end
    end
  ensure
    ENV["RACK_ENV"] = was
  end

  def test_what_is_published_in_one_turn_is_rendered_once
    serve(News) do |served|
      pages = Array.new(3) { Document.new(open_websocket(served)).tap(&:html) }
      eventually { Gyre::Broadcast.count(:live_news) == 3 }
      Thread.new { 20.times { |number| Gyre::Broadcast.publish(:live_news, number.to_s) } }.join
      all = (0...20).to_a.join(" ")
      pages.each do |page|
        html = page.html until html&.start_with?(all)
      end
    end
  end

  def test_a_page_that_leaves_leaves_its_topics
    serve(News) do |served|
      peer = open_websocket(served)
      Document.new(peer).html
      peer.close(1000)
      eventually { Gyre::Broadcast.count(:live_news).zero? }
    end
  end

  def test_unmount_runs_once_after_the_last_handler
    calls = Thread::Queue.new
    view = Class.new(Gyre::Live) do
      on(:slow) { |_| sleep(0.01) && calls << :slow }
      define_method(:unmount) { calls << :unmount }
      define_method(:render) { "here" }
      define_singleton_method(:name) { "Leaving" }
    end
    serve(view) do |served|
      peer = open_websocket(served)
      Document.new(peer).html
      peer.text('["slow",null]')
      peer.client.reset
      eventually { served.stats[:connections].zero? && !calls.empty? }
      assert_equal [:slow, :unmount], Array.new(2) { calls.pop }
      assert_empty calls
    end
  end

  def test_every_runs_again_and_again_until_the_page_has_left
    ticks = 0
    clock = Class.new(Gyre::Live) do
      define_method(:mount) { |_env| every(0.001) { ticks += 1 } }
      define_method(:render) { ticks.to_s }
      define_singleton_method(:name) { "Clock" }
    end
    serve(clock) do |served|
      peer = open_websocket(served)
      page = Document.new(peer)
      page.html
      assert_operator page.html.to_i, :<, page.html.to_i
      peer.client.reset
      eventually { served.stats[:connections].zero? }
    end
  end

  def test_update_may_be_called_by_a_thread_and_within_a_handler
    views = Thread::Queue.new
    view = Class.new(Gyre::Live) do
      on(:twice) { |_| 2.times { update { @text += "!" } } }
      define_method(:mount) do |_env|
        @text = "hello"
        views << self
      end
      define_method(:render) { @text }
      define_singleton_method(:name) { "Text" }
    end
    serve(view) do |served|
      page = Document.new(open_websocket(served))
      assert_equal "hello", page.html
      seen = views.pop
      Thread.new { seen.update { @text = "thread" } }.join
      assert_equal "thread", page.html
      assert_equal "thread!!", page.send("twice", nil).html
    end
  end

  # Pages that change each other, and what they do when they end.
  class Friends < Gyre::Live
    PAGES = []
    ENDS = Thread::Queue.new
    keep :user

    on(:all) { |word| sleep(0.02) && PAGES.each { |page| page.update { @said << word } } }
    on(:slow) { |_| sleep(0.1) }
    on(:leave) { |_| unsubscribe(:live_friends) }
    template "<p><%= @user %> <%= @said.join(\" \") %></p>\n"

    def mount(env)
      @user = env["HTTP_X_USER"]
      @said = []
      subscribe(:live_friends, as: "friend") { |message| ENDS.empty? ? @said << message : ENDS << message }
      PAGES << self if connected?
    end

    def unmount
      PAGES.delete(self)
      ENDS << :unmount
    end
  end

  def test_pages_that_change_each_other_wait_for_none
    serve(Friends) do |served|
      pages = Array.new(2) { Document.new(open_websocket(served)).tap(&:html) }
      pages.each_with_index { |page, index| page.send("all", "w#{index}") }
      pages.each { |page| nil until page.html.scan(/w\d/).sort == %w[w0 w1] }
    end
  end

  def test_unmount_is_last
    Friends::ENDS.clear
    serve(Friends) do |served|
      peer = open_websocket(served)
      Document.new(peer).tap(&:html).send("slow", 1)
      eventually { Friends::PAGES.size == 1 }
      Gyre::Broadcast.publish(:live_friends, "late")
      peer.client.reset
      assert_equal :unmount, Friends::ENDS.pop
      eventually { served.stats[:upgraded].zero? }
      assert_empty Friends::ENDS
    end
  end

  def test_a_page_leaves_a_topic_and_is_disconnected_by_its_name
    Friends::ENDS.clear
    serve(Friends) do |served|
      peer = open_websocket(served)
      page = Document.new(peer).tap(&:html)
      Gyre::Broadcast.publish(:live_friends, "one")
      assert_includes page.html, "one"
      page.send("leave", 1)
      eventually { Gyre::Broadcast.count(:live_friends).zero? }
      Gyre::Broadcast.disconnect("friend")
      assert_equal [1008, "disconnected"], peer.closed
    end
  end

  def test_the_state_of_another_user_or_session_or_day_is_not_taken
    serve(Friends) do |served|
      token = sign(Friends, { "@user": "admin" }, mounted: { "@user": "admin" })
      assert_includes Document.new(open_websocket(served, x_user: "guest"), token: token).html, "<p>guest"
    end
    assert_equal "", Gyre::Live::State.scope({})
    assert_equal({}, Gyre::Live::State.verify(Friends, "two", Gyre::Live::State.sign(Friends, "one", {}, {}), {}))
    old = sign(Counter, { "@count": 3 })
    mounted = Gyre::Live::State.digests({ "@count": 0 })
    assert_equal({ "@count" => 3 }, Gyre::Live::State.verify(Counter, "", old, mounted))
    later = Process.clock_gettime(Process::CLOCK_REALTIME) + 100_000
    Process.stub(:clock_gettime, later) { assert_empty Gyre::Live::State.verify(Counter, "", old, mounted) }
  end

  def test_messages_of_one_turn_close_no_page_and_a_long_event_is_taken
    serve(News) do |served|
      page = Document.new(open_websocket(served)).tap(&:html)
      served.on_loop { 1500.times { |number| Gyre::Broadcast.publish(:live_news, number.to_s) } }
      assert_includes page.html, " 1499"
      assert_includes page.send("say", "t" * 70_000).html, "ttt"
    end
  end

  def test_kept_variables_have_a_limit
    error = assert_raises(ArgumentError) { Counter.new.tap { |view| view.instance_variable_set(:@count, "x" * (1 << 20)) }.token("", {}) }
    assert_match(/the kept variables of .*Counter take \d+ bytes/, error.message)
  end

  # A token as the page of a view that has set its counter to 0 has it.
  def sign(view, values, scope: "", mounted: { "@count": 0 })
    Gyre::Live::State.sign(view, scope, values, Gyre::Live::State.digests(mounted))
  end

  def test_a_secret_has_32_bytes
    assert_raises(ArgumentError) { Gyre::Live.secret = "short" }
    was = Gyre::Live.secret
    token = sign(Counter, {})
    Gyre::Live.secret = "x" * 32
    assert_equal [{}, 1], [Gyre::Live::State.verify(Counter, "", token, {}), sign(Counter, {}).count(".")]
  ensure
    Gyre::Live.secret = was if was
  end
end

GyreTest::HTTPContract.run(LivePages, over: %i[http1 tls])
