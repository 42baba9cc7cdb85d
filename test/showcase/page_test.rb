# frozen_string_literal: true

# The showcase's page in a headless Chromium, where one is installed. Screenshots go to
# tmp/showcase/.

require_relative "../test_helper"
require_relative "visit"
require_relative "../support/chromium"
require "digest"

# The page itself, on the engine that GYRE_BACKEND or the machine chooses.
class ShowcasePageTest < Minitest::Test
  include GyreTest::Showcase

  SCREENSHOTS = File.join(GyreTest::Helpers::ROOT, "tmp/showcase")

  def test_the_page_comes_alive_in_a_browser
    skip "the showcase's page is not tested: no Chromium is installed (apt-get install chromium)" unless Chromium.program

    with_showcase do |program|
      Chromium.open do |browser|
        browser.look_like(width: 1280, height: 900)
        browser.visit("http://127.0.0.1:#{program.port}/")
        watch_bars(browser)
        press(browser, "#ask-both")
        check_clock(browser)
        check_bars(browser, "at-once", 1.7)
        press(browser, "#readings-start, #upload-sample")
        check_poem(browser)
        check_readings_and_upload(browser)
        check_waiting(browser)
        check_source(browser)
        check_cache(browser)
        check_name(browser)
        check_idle_connections(browser)
        check_hold(browser)
        check_targets(browser)
        check_bars(browser, "one-by-one", 4.4)
        browser.wait_until("/^All at once is [23]\\.\\d\\s× faster\\.$/.test(document.getElementById('verdict').textContent)")
        check_growing_bars(browser)
        check_limit(browser)
        check_log(browser, program)
        check_talk(browser)
        check_board(browser)
        check_dashboard(browser)
        take_pictures(browser)
        check_badge(browser, program)
        assert_empty browser.complaints, "the browser's console"
      end
    end
  end

  private

  def check_clock(browser)
    browser.wait_until("document.getElementById('link').dataset.state === 'live'")
    first = browser.wait_until("/^\\d\\d:\\d\\d:\\d\\d$/.exec(document.getElementById('clock').textContent)?.[0]")
    browser.wait_until("document.getElementById('clock').textContent !== '#{first}'", timeout_s: 60)
    %w[requests connections tasks turns memory].each do |figure|
      assert_match(/\A[\d,.]+( MB)?\z/, text(browser, "##{figure}"), figure)
    end
    assert_match(/\AGyre .* · (epoll|select) · Ruby #{RUBY_VERSION} · up for /, text(browser, "#server"))
    assert_operator browser.evaluate("document.querySelectorAll('#memory-line polyline')[0].points.length"), :>=, 2
  end

  # The page itself notes what the bars look like, for a question from outside may come too late.
  def watch_bars(browser)
    browser.evaluate(<<~JAVASCRIPT)
      window.widthsSeen = [];
      const look = (bars) => bars.map((bar) => bar.getBoundingClientRect().width);
      setInterval(() => widthsSeen.push([look(#{bars("at-once")}), look(#{bars("one-by-one")})]), 20);
      null
    JAVASCRIPT
  end

  # At some time all three of the one way had begun, the other way's later ones had not.
  def check_growing_bars(browser)
    begun = "once.length === 3 && once.every((width) => width > 10) && one[0] > 10 && one[2] === 0"
    assert browser.evaluate("widthsSeen.some(([once, one]) => #{begun})")
    widths = "widthsSeen.map(([once]) => once[0]).filter((width, index, all) => all.indexOf(width) === index)"
    assert browser.evaluate("#{widths}.length > 3"), "it does not grow"
  end

  # It starts when it is seen.
  def check_poem(browser)
    look_at(browser, "#poem")
    browser.wait_until("document.getElementById('poem-result').textContent.includes('All 12')")
    times = browser.evaluate("[...document.querySelectorAll('#poem-text .line')].map((line) => Number(line.dataset.at_s))")
    assert_equal 14, times.size
    assert_operator times.last - times.first, :>, 2, "the lines came together"
    assert_match(/gyre and gimble/, text(browser, "#poem-text"))
  end

  def check_waiting(browser)
    press(browser, "#waiting-start")
    browser.wait_until("document.getElementById('waiting').dataset.state === 'done'")
    assert_match(/\A[\d,]+ requests waited, in [\d,]+ fibers of one thread\. Memory: .* All were answered after [\d.]+ s\.\z/,
      text(browser, "#waiting-result"))
  end

  # A shop that is too slow is an error, in colour, which names the limit.
  def check_limit(browser)
    browser.evaluate("document.getElementById('limit').click()")
    press(browser, "[data-way=at-once] button")
    browser.wait_until("document.querySelector('[data-way=at-once]').dataset.state === 'failed'")
    message = text(browser, "[data-way=at-once] .result")
    assert_match(%r{\AGET http://.*/shops/borogove: send: wait for the response of .*: the request's time is over \(timeout_s\)\z}, message)
    failed = ["[data-way=at-once] .result", "[data-way=at-once] li.failed .answer"]
    colours = failed.map { |each| browser.evaluate("getComputedStyle(document.querySelector('#{each}')).color") }
    assert_equal ["rgb(179, 38, 30)"], colours.uniq
  end

  # A server that is stopped (SIGSTOP) still has its connection.
  def check_badge(browser, program)
    look_at(browser, "header")
    program.signal(:STOP)
    browser.wait_until("document.getElementById('link').textContent === 'the server is silent'")
    program.signal(:CONT)
    browser.wait_until("document.getElementById('link').textContent === 'live'")
  ensure
    program.signal(:CONT)
  end

  def check_readings_and_upload(browser)
    browser.wait_until("document.getElementById('readings-result').textContent.startsWith('1,000,000 rows')")
    assert_equal 1_000_000, browser.evaluate("document.getElementById('readings-progress').value")
    browser.wait_until("document.getElementById('upload-result').textContent.includes('SHA-256')")
    assert_match(/counted 20,000,000 bytes .* #{Digest::SHA256.hexdigest("\0" * 20_000_000)}\z/, text(browser, "#upload-result"))
    assert_operator browser.evaluate("Number(document.getElementById('upload-progress').dataset.events)"), :>=, 1
  end

  def check_log(browser, program)
    look_at(browser, "#log")
    browser.evaluate("document.getElementById('log-message').value = '<b>bold</b>\\n|error'")
    browser.evaluate("document.getElementById('log-severity').value = 'error'")
    press(browser, "#log-form button")
    browser.wait_until(row('<b>bold</b>\n|error'))
    assert_equal [1, "visitor"], browser.evaluate("[#{rows("error")}.length, #{rows("error")}[0].children[1].textContent]")
    assert_equal 0, browser.evaluate("document.querySelectorAll('#log-lines b').length"), "text became HTML"
    browser.wait_until("/^On the disk after [\\d.]+ ms\\.$/.test(document.getElementById('log-result').textContent)")
    browser.wait_until("/^\\d+ messages · [\\d.]+ a second · all on the disk$/.test(document.getElementById('log-status').textContent)")
    browser.wait_until(row("GET /shops/tumtum 200"))
    check_pause(browser, program)
  end

  # Without a reader nothing comes. A reader that comes back sees what was missed, once.
  def check_pause(browser, program)
    look_at(browser, "header")
    browser.wait_until("document.getElementById('log').dataset.state === 'paused'")
    log(program, "without a reader", "debug")
    refute browser.evaluate(row("without a reader"))
    look_at(browser, "#log")
    browser.wait_until(row("without a reader"))
    assert_equal 1, browser.evaluate("#{rows("error")}.length"), "came twice"
    assert_equal 0, browser.evaluate("#{rows("missing")}.length")

    look_at(browser, "header")
    browser.wait_until("document.getElementById('log').dataset.state === 'paused'")
    http(program) { |http| 230.times { http.head("/") } && http.head("/last") } # more than are kept
    followed(program, "HEAD /last 404") # they are logged beside the answers
    look_at(browser, "#log")
    browser.wait_until("#{rows("missing")}.length === 1")
    assert_equal 220, browser.evaluate("document.querySelectorAll('#log-lines li').length")
  end

  # The bars are as long as the rates: the longest fills its track.
  def check_cache(browser)
    press(browser, "#cache-start")
    browser.wait_until("/^(done|missing)$/.test(document.getElementById('cache').dataset.state)", timeout_s: 60)
    return assert_match(/apt-get install memcached\z/, text(browser, "#cache-result")) unless GyreTest::Showcase.memcached?

    result = /\AAt least 12,000 commands and half a second each way\. At best \d+ times as many a second as one after the other\.\z/
    assert_match(result, text(browser, "#cache-result"))
    widths = browser.evaluate("[...document.querySelectorAll('#cache .bar')].map((bar) => parseFloat(bar.style.width))")
    assert_equal 5, widths.size
    assert_equal 100, widths.max
    assert_operator widths.min, :>, 0
    assert_match(/\A[\d,]+ a second\z/, text(browser, "#cache .answer"))
  end

  def check_name(browser)
    browser.evaluate("document.getElementById('dns-name').value = 'jabberwock.backwards'")
    press(browser, "#dns-start")
    browser.wait_until("document.getElementById('dns-reply').textContent.includes('kcowrebbaj')")
    assert_match(/\A\d+ ms\.\z/, text(browser, "#dns-result"))
  end

  def check_idle_connections(browser)
    press(browser, "#idle-start")
    browser.wait_until("document.getElementById('idle').dataset.state === 'done'", timeout_s: 60)
    assert_match(/\A[\d,]{5,} connections open; memory [\d.]+ MB, before [\d.]+ MB, [\d.]+ KB for each\.\z/, text(browser, "#idle-result"))
  end

  def check_hold(browser)
    press(browser, "#hold-start")
    browser.wait_until("!document.getElementById('hold-report').hidden", timeout_s: 60)
    assert_match(%r{the request POST /hold has held the loop of .*, computing\n.*hold\.rb:\d+}, text(browser, "#hold-report"))
  end

  # A line that was sent while the events were cut off comes too, and once.
  def check_talk(browser)
    look_at(browser, "#talk")
    browser.wait_until("document.querySelectorAll('.talk .link[data-state=live]').length === 2")
    say(browser, "<b>first</b>")
    browser.wait_until("#{said("events")}.length === 1")
    press(browser, "#talk-cut")
    browser.wait_until("document.querySelector('#talk-events .link').dataset.state === 'waiting'")
    say(browser, "while cut off")
    browser.wait_until("#{said("events")}.length === 2")
    %w[socket events].each { |way| assert_equal ["<b>first</b>", "while cut off"], browser.evaluate(said(way)), way }
  end

  def say(browser, line)
    browser.evaluate("document.getElementById('talk-line').value = #{JSON.generate(line)}")
    press(browser, "#talk-form button")
  end

  def said(way)
    "[...document.querySelectorAll('#talk-#{way} li')].map((line) => line.textContent)"
  end

  def check_board(browser)
    look_at(browser, "#board")
    browser.wait_until("#{frame("board")}.querySelector('.status')?.textContent === 'Your move.'")
    browser.evaluate("#{frame("board")}.querySelectorAll('.column')[3].click()")
    browser.wait_until("#{frame("board")}.querySelectorAll('.board i.red').length === 1")
    assert_equal "Gold is to move.", browser.evaluate("#{frame("board")}.querySelector('.status').textContent")
    check_fit(browser, "board")
  end

  def check_dashboard(browser)
    look_at(browser, "#dashboard")
    browser.wait_until("#{frame("dashboard")}.querySelector('polyline')?.points.length > 1")
    check_fit(browser, "dashboard")
  end

  # Neither bars nor blank space.
  def check_fit(browser, name)
    browser.wait_until("Math.abs(#{frame(name)}.documentElement.getBoundingClientRect().height - " \
                       "document.querySelector('##{name} iframe').clientHeight) <= 1")
    assert browser.evaluate("#{frame(name)}.documentElement.scrollWidth <= document.querySelector('##{name} iframe').clientWidth")
  end

  def frame(name)
    "document.querySelector('##{name} iframe').contentDocument"
  end

  # What a thumb can hit (WCAG 2.5.5).
  def check_targets(browser)
    browser.look_like(width: 390, height: 844, mobile: true)
    heights = browser.evaluate("[...document.querySelectorAll('button, .button, summary, select, textarea, input:not([type])')]" \
                               ".map((each) => [each.textContent.trim(), each.getBoundingClientRect().height])")
    assert_empty heights.select { |_, height| height < 44 }
    browser.look_like(width: 1280, height: 900)
  end

  def check_source(browser)
    browser.evaluate("document.querySelector('#poem details').open = true")
    assert browser.wait_until("document.querySelector('#poem details pre')?.textContent.startsWith('def call(env)')")
    assert_equal "/source/poem.rb", browser.evaluate("document.querySelector('#poem details pre + a').pathname")
    assert_equal "def", text(browser, "#poem details pre .keyword")
    browser.evaluate("document.querySelector('#comparison details').open = true")
    browser.wait_until("document.querySelectorAll('#comparison pre .comment').length === 4")
    refute_includes text(browser, "#comparison pre"), "monotonic_now"
    browser.evaluate("document.querySelector('#poem details').open = false")
  end

  def check_bars(browser, way, least_s)
    browser.wait_until("document.querySelector('[data-way=#{way}]').dataset.state === 'done'")
    assert_operator least_s, :<=, Float(browser.evaluate("document.querySelector('[data-way=#{way}]').dataset.seconds"))
    assert_match(/Brillig & Sons has the best price: €\u00a021\.40/, text(browser, "[data-way=#{way}] .result"))
    begins = browser.evaluate("#{bars(way)}.map((bar) => parseFloat(bar.style.left) / 100 * 5)")
    earliest = way == "at-once" ? [0, 0, 0] : [0, 1.19, 2.69] # a busy machine may draw them later
    earliest.zip(begins) { |expected, begun| assert_operator begun, :>=, expected, "where the bars begin: #{begins}" }
  end

  def take_pictures(browser)
    { "desktop" => [1280, 900, false], "phone" => [390, 844, true] }.each do |name, (width, height, mobile)|
      [false, true].each do |dark|
        browser.look_like(width: width, height: height, dark: dark, mobile: mobile)
        assert_equal width, browser.evaluate("document.documentElement.scrollWidth"), "the page is too wide for a #{name}"
        %w[board dashboard].each { |frame| check_fit(browser, frame) }
        browser.screenshot(File.join(SCREENSHOTS, "#{name}-#{dark ? "dark" : "light"}.png"))
      end
    end
  end

  def press(browser, selector)
    browser.evaluate("document.querySelectorAll('#{selector}').forEach((button) => button.click())")
  end

  def look_at(browser, selector)
    browser.evaluate("document.querySelector('#{selector}').scrollIntoView({ behavior: 'instant' })")
  end

  def rows(kind)
    "document.querySelectorAll('#log-lines .#{kind}')"
  end

  # Whether there is one with that message.
  def row(message)
    "[...document.querySelectorAll('#log-lines .message')].some((cell) => cell.textContent === #{JSON.generate(message)})"
  end

  def bars(way)
    "[...document.querySelectorAll('[data-way=#{way}] .bar')]"
  end

  def text(browser, selector)
    browser.evaluate("document.querySelector(#{JSON.generate(selector)}).textContent")
  end
end
