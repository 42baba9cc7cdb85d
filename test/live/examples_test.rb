# frozen_string_literal: true

# The programs of examples/live in two headless Chromiums at once, where one is installed: what one
# visitor does, the other sees. Screenshots go to tmp/live/.

require "test_helper"
require "support/chromium"
require "web/serving"

class LiveExamplesTest < Minitest::Test
  include GyreTest::Serving

  CONFIG = File.join(GyreTest::Helpers::ROOT, "examples/live/config.ru")
  SCREENSHOTS = File.join(GyreTest::Helpers::ROOT, "tmp/live")
  JOINED = "document.querySelector('.news li') && !document.querySelector('[live-offline]')"

  def setup
    skip "live pages are not tested in a browser: no Chromium is installed (apt-get install chromium)" unless Chromium.program
  end

  def test_two_pages_play_on_one_board
    serve_two("/board", JOINED) do |program, browsers|
      red, gold = players(browsers)
      play(red, gold)
      rename(red, gold)
      survive_a_restart(program, red)
      take_pictures("board", red)
    end
  end

  def test_two_pages_watch_the_server
    serve_two("/dashboard", "document.querySelectorAll('polyline')[0]?.points.length > 1") do |_program, browsers|
      browsers.each { |browser| browser.wait_until("document.querySelector('.upgraded').textContent === '2'") }
      before = browsers.map { |browser| points(browser) }
      browsers.zip(before) { |browser, count| browser.wait_until("document.querySelectorAll('polyline')[0].points.length > #{count}") }
      assert_match(/\A[1-9]\d*\.\d MB\z/, browsers.first.evaluate("document.querySelector('.memory_mb').textContent"))
      take_pictures("dashboard", browsers.first)
    end
  end

  private

  # Yields the program and two pages that are live.
  def serve_two(path, live)
    serve(CONFIG, "-w", "1", "--log-format", "none", app: nil, env: { "LIVE_SECRET" => "s" * 32 }) do |program|
      Chromium.open do |one|
        Chromium.open do |two|
          [one, two].each do |browser| # the second visitor sees the first
            browser.visit("http://127.0.0.1:#{program.port}#{path}")
            browser.wait_until(live)
          end
          yield program, [one, two]
          # A connection that the server has ended is reported by the browser itself.
          assert_empty [one, two].flat_map(&:complaints).grep_v(/WebSocket connection to/), "the browsers' consoles"
        end
      end
    end
  end

  # The two are on different sides.
  def players(browsers)
    browsers.sort_by { |browser| browser.evaluate("document.querySelector('.you.red') ? 0 : 1") }.tap do |red, gold|
      assert red.evaluate("!!document.querySelector('.you.red')")
      gold.wait_until("document.querySelector('.visitors').textContent === '1 × red, 1 × gold'")
      refute gold.evaluate("!!document.querySelector('.you.red')")
    end
  end

  # Red wins in its column, although gold moves between.
  def play(red, gold)
    4.times do |move|
      drop(red, 2)
      gold.wait_until("document.querySelectorAll('.board .red').length === #{move + 1}")
      next if move == 3

      drop(gold, 4)
      red.wait_until("document.querySelectorAll('.board .gold').length === #{move + 1}")
    end
    [red, gold].each { |browser| browser.wait_until("document.querySelector('.status').textContent === 'Red has won.'") }
    assert_equal 4, gold.evaluate("document.querySelectorAll('.board .four').length")
  end

  # A page that is offline sends no click.
  def drop(browser, column)
    browser.wait_until("document.querySelector('live-view:not([live-offline]) .status')?.textContent === 'Your move.'")
    browser.evaluate("document.querySelectorAll('.column')[#{column}].click()")
  end

  # A name is text, whatever it looks like.
  def rename(red, gold)
    red.evaluate(<<~JAVASCRIPT)
      const field = document.querySelector(".name input");
      field.value = "<script>alert(1)";
      field.dispatchEvent(new Event("change", { bubbles: true }));
      document.querySelector("[live-click=again]").click();
    JAVASCRIPT
    gold.wait_until("document.querySelector('.news li').textContent === '<script>alert(1) begins a new game.'")
    assert_equal 1, gold.evaluate("document.scripts.length")
  end

  # The new worker has another game; the page has kept who it is.
  def survive_a_restart(program, red)
    red.evaluate("document.title = 'the same page'")
    program.signal(:USR1)
    red.wait_until("document.querySelector('.news li').textContent === 'Somebody has come.'")
    assert_equal ["<script>alert(1)", "the same page", true],
                 red.evaluate("[document.querySelector('.name input').value, document.title, !!document.querySelector('.you.red')]")
  end

  def points(browser) = browser.evaluate("document.querySelectorAll('polyline')[0].points.length")

  def take_pictures(name, browser)
    { "wide" => { width: 1100, height: 800 }, "phone-dark" => { width: 390, height: 844, dark: true, mobile: true } }.each do |kind, look|
      browser.look_like(**look)
      browser.screenshot(File.join(SCREENSHOTS, "#{name}-#{kind}.png"))
      assert browser.evaluate("document.documentElement.scrollWidth <= #{look[:width]}"), "#{name} is wider than #{kind}"
    end
  end
end

class LiveBoardTest < Minitest::Test
  def test_sides_are_drawn_while_a_page_has_none_yet
    load File.join(GyreTest::Helpers::ROOT, "examples/live/board.rb")
    Board.pages.push(Board.new, Board.new)
    assert_equal %i[red gold], Board.pages.map(&:side).map(&:to_sym)
  end
end
