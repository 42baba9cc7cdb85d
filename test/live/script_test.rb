# frozen_string_literal: true

# What script.js does to a document, in a headless Chromium, where one is installed: cases of a
# document before, what a user does, and a document after.

require "test_helper"
require "http/contract"
require "support/chromium"
require "gyre/live"

class LiveScriptTest < Minitest::Test
  include GyreTest::HTTPServing

  # Renders the markup that it is told.
  class Screen < Gyre::Live
    OPEN = []
    keep :markup
    on(:show) { |markup| @markup = markup }
    on(:tell) { |value| @told = JSON.generate(value) }
    on(:fail) { |_| raise "never mind" }

    def mount(_env)
      @markup = %(<p id="first">first</p>)
      OPEN << self if connected?
    end

    def unmount = OPEN.delete(self)
    def render = raw(%(#{@markup}\n<output>#{ERB::Util.html_escape(@told.to_s)}</output>\n<i id="shown">#{@markup.hash}</i>\n))
  end

  # name => markup before, what the user does, markup after, an expression, its value
  CASES = {
    "focus and selection stay when a keyed row before goes" =>
      [%(<li id="a"><input id="ta"></li><li id="b"><input id="tb"></li>), "tb.focus(); tb.value = 'typed'; tb.setSelectionRange(1, 3)",
       %(<li id="b"><input id="tb"></li>), "[document.activeElement.id, tb.value, tb.selectionStart].join()", "tb,typed,1"],
    "focus stays when a keyed row comes before" =>
      [%(<li id="b"><input id="tb"></li>), "tb.focus(); tb.value = 'typed'", %(<li id="a"></li><li id="b"><input id="tb"></li>),
       "[document.activeElement.id, tb.value].join()", "tb,typed"],
    "focus stays when keyed rows change places" =>
      [%(<li id="a"><input id="ta"></li><li id="b"><input id="tb"></li><li id="c"></li>), "tb.focus()",
       %(<li id="c"></li><li id="b"><input id="tb"></li><li id="a"><input id="ta"></li>),
       "[document.activeElement.id, ...[...document.querySelectorAll('li')].map((li) => li.id)].join()", "tb,c,b,a"],
    "focus stays when an element without an id before goes" =>
      [%(<div><b>x</b><input name="n"></div>), "document.querySelector('input').focus()", %(<div><input name="n"></div>),
       "document.activeElement.name", "n"],
    "a frame is not loaded again when a row before goes" =>
      [%(<li id="a"></li><li id="b"><iframe srcdoc="x"></iframe></li>), "document.querySelector('iframe').contentWindow.mark = 1",
       %(<li id="b"><iframe srcdoc="x"></iframe></li>), "document.querySelector('iframe').contentWindow.mark", 1],
    "a video stays the same element" =>
      [%(<p>a</p><video></video>), "document.querySelector('video').mark = 1", %(<video></video>), "document.querySelector('video').mark", 1],
    "typed text stays while the server's does not change" =>
      [%(<input id="t" value="a"><b>1</b>), "t.value = 'typed'", %(<input id="t" value="a"><b>2</b>), "t.value", "typed"],
    "the server's new text replaces what was typed" =>
      [%(<input id="t" value="a">), "t.value = 'typed'", %(<input id="t" value="b">), "t.value", "b"],
    "a field with focus gets the server's text when it loses the focus" =>
      [%(<input id="t" value="a">), "t.focus(); t.value = 'typed'; setTimeout(() => t.blur(), 500)", %(<input id="t" value="b">), "t.value", "b"],
    "a textarea gets the server's text" =>
      [%(<textarea id="t">a</textarea>), "t.value = 'typed'", %(<textarea id="t">b</textarea>), "t.value", "b"],
    "a choice stays" =>
      [%(<select id="s"><option>a</option><option>b</option></select><b>1</b>), "s.value = 'b'",
       %(<select id="s"><option>a</option><option>b</option></select><b>2</b>), "s.value", "b"],
    "the server's choice replaces it" =>
      [%(<select id="s"><option>a</option><option>b</option></select>), "s.value = 'b'",
       %(<select id="s"><option selected>a</option><option>b</option></select>), "s.value", "a"],
    "a tick stays, and the server's replaces it" =>
      [%(<input type="checkbox" id="c"><input type="checkbox" id="d" checked>), "c.checked = true",
       %(<input type="checkbox" id="c"><input type="checkbox" id="d">), "[c.checked, d.checked].join()", "true,false"],
    "details stay open" =>
      [%(<details id="d"><p>1</p></details>), "d.open = true", %(<details id="d"><p>2</p></details>), "d.open", true],
    "a place in a list that scrolls stays" =>
      [%(<div id="s" style="height: 20px; overflow: auto"><p style="height: 200px">1</p></div>), "s.scrollTop = 50",
       %(<div id="s" style="height: 20px; overflow: auto"><p style="height: 200px">2</p></div>), "s.scrollTop", 50],
    "an ignored element keeps its children and gets the server's attributes" =>
      [%(<div id="m" live-ignore data-at="1"></div>), "m.textContent = 'own'", %(<div id="m" live-ignore data-at="2"></div>),
       "m.textContent + m.dataset.at", "own2"]
  }.freeze

  # A view in a view: the outer one shows one of two others.
  class Frame < Gyre::Live
    on(:turn) { |_| @turns += 1 }

    def mount(env)
      @turns = 0
      @inner = %w[/one /two].map { |path| Screen.embed(env, at: path) }
    end

    def render = raw(%(<b id="turns">#{@turns}</b><button id="turn" live-click="turn"></button>\n<div>\n#{@inner[@turns / 2 % 2]}</div>\n))
  end

  # Fails as soon as it is open.
  class Failing < Gyre::Live
    template %(<p>hello</p>\n)
    def mount(_env) = every(0.01) { raise "never mind" }
  end

  def setup
    skip "live pages are not tested in a browser: no Chromium is installed (apt-get install chromium)" unless Chromium.program
  end

  def test_what_a_user_has_done_stays_when_the_document_changes
    visit do |browser|
      CASES.each do |name, (before, act, after, expression, value)|
        show(browser, before)
        browser.evaluate("#{act}; 1")
        show(browser, after)
        browser.wait_until("(#{expression}) === #{JSON.generate(value)}", timeout_s: 5)
      rescue Chromium::Error => error
        flunk "#{name}: #{value.inspect} was to come: #{error.message}"
      end
    end
  end

  def test_fields_with_several_values_give_all
    visit do |browser|
      show(browser, <<~HTML)
        <form id="f" live-submit="tell" live-change="tell">
        <select name="tags" multiple><option selected>one</option><option selected>two</option></select>
        <input type="checkbox" name="days[]" value="mo" checked><input name="one" value="1"><button id="go">go</button></form>
        <select id="s" multiple live-change="tell"><option selected>a</option><option selected>b</option></select>
      HTML
      fields = { "tags" => %w[one two], "days[]" => ["mo"], "one" => "1" }
      { "go.click()" => fields, "document.querySelector('[name=one]').dispatchEvent(new Event('change', { bubbles: true }))" => fields,
        "s.dispatchEvent(new Event('change', { bubbles: true }))" => %w[a b] }.each do |act, told|
        browser.evaluate("#{act}; 1")
        browser.wait_until("document.querySelector('output').textContent === #{JSON.generate(JSON.generate(told))}", timeout_s: 10)
      end
    end
  end

  def test_a_view_that_leaves_the_document_closes_its_socket_and_one_that_comes_back_has_one
    visit do |browser|
      eventually { Screen::OPEN.size == 1 }
      browser.evaluate("{ const view = document.querySelector('live-view'); window.markup = view.outerHTML; view.remove(); 1 }")
      eventually { Screen::OPEN.empty? }
      browser.evaluate("document.body.insertAdjacentHTML('beforeend', window.markup); 1")
      eventually { Screen::OPEN.size == 1 }
    end
  end

  def test_a_view_in_a_view_keeps_what_it_shows_and_another_one_in_its_place_has_its_own_socket
    opened = Thread::Queue.new
    app = lambda do |env|
      opened << env["PATH_INFO"] if Gyre::WebSocket.requested?(env)
      (env["PATH_INFO"] == "/" ? Frame : Screen).call(env)
    end
    turn = ->(browser, number) { browser.evaluate("turn.click(); 1") && browser.wait_until("turns.textContent === '#{number}'") }
    visit(app) do |browser|
      eventually { opened.size == 2 }
      assert_equal %w[/ /one], Array.new(2) { opened.pop }.sort
      show(browser, %(<input id="t">), "live-view live-view")
      browser.evaluate("t.value = 'typed'; 1")
      turn[browser, 1]
      assert_equal "typed", browser.evaluate("t.value")
      assert_empty opened
      turn[browser, 2]
      eventually { !opened.empty? && Screen::OPEN.size == 1 }
      assert_equal "/two", opened.pop
      browser.wait_until("document.querySelector('#first') && !document.querySelector('#t')")
      show(browser, %(<p id="other">other</p>), "live-view live-view")
    end
  end

  def test_an_event_before_the_first_connection_is_open_waits_for_it
    clicked = Thread::Queue.new
    app = lambda do |env|
      clicked.pop if Gyre::WebSocket.requested?(env)
      Screen.call(env)
    end
    visit(app) do |browser|
      click(browser, "<p>early</p>")
      clicked << true
      browser.wait_until("document.querySelector('p').textContent === 'early'", timeout_s: 10)
    end
  end

  def test_the_pause_between_connections_grows_while_a_page_fails
    visit(Failing, ready: "document.querySelector('p')") do |browser|
      pauses = browser.evaluate(<<~JS)
        new Promise((resolve) => {
          const pauses = [], soon = window.setTimeout;
          window.setTimeout = (code, pause) => {
            pauses.push(pause);
            return soon(() => pauses.length > 5 ? resolve(pauses) : code(), 0);
          };
        })
      JS
      assert pauses.each_with_index.all? { |pause, index| pause >= [250 << index, 10_000].min }, pauses.inspect
    end
  end

  private

  # `ready`: an expression that is true once the page is live.
  def visit(app = Screen, ready: "document.querySelector('#shown') && !document.querySelector('[live-offline]')")
    Chromium.open do |browser|
      serve(app) do |served|
        browser.visit("http://127.0.0.1:#{served.port}/")
        browser.wait_until(ready)
        yield browser
        browser.visit("about:blank")
        eventually { served.stats[:upgraded].zero? }
        served.errors.clear if app == Failing
      end
    end
  end

  # Lets the page show the markup, by an event of an element of its own.
  def show(browser, markup, view = "live-view")
    click(browser, markup, view)
    browser.wait_until("document.querySelector('#shown').textContent === '#{markup.hash}'", timeout_s: 10)
  end

  def click(browser, markup, view = "live-view")
    browser.evaluate(<<~JS)
      { const view = document.querySelector("#{view}"), button = document.createElement("button");
        button.setAttribute("live-click", "show");
        button.setAttribute("live-value", #{JSON.generate(markup)});
        view.append(button);
        button.dispatchEvent(new MouseEvent("click", { bubbles: true }));
        button.remove();
        1 }
    JS
  end
end
