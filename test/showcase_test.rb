# frozen_string_literal: true

# The showcase as a visitor meets it: `gyre serve examples/showcase/config.ru` in a process of its own, asked over HTTP on
# each engine, and its page in a headless Chromium where one is installed. Screenshots go to tmp/showcase/.

require_relative "test_helper"
require_relative "support/chromium"
require_relative "support/engines"
require_relative "web/serving"
require "digest"
require "json"
require "time"

module GyreTest
  # Starts the showcase and talks to it.
  module Showcase
    include Serving

    FOLDER = File.join(Helpers::ROOT, "examples/showcase")
    # How much more memory the server may take while 20 MB go through: so little that it cannot have kept them.
    GROWTH_BYTES_LIMIT = 6_000_000

    BYTES = { "content-type" => "application/octet-stream" }.freeze
    # Garbage is collected early, so that what a test counts is what the server keeps.
    EARLY_COLLECTION = %w[
      RUBY_GC_MALLOC_LIMIT RUBY_GC_MALLOC_LIMIT_MAX RUBY_GC_OLDMALLOC_LIMIT RUBY_GC_OLDMALLOC_LIMIT_MAX
    ].to_h { |name| [name, "1000000"] }.freeze

    # A line of a streamed answer, and how many seconds after the request it came.
    Line = Struct.new(:text, :at_s)

    # The same app, and everything that it answers looked at by Rack's own check.
    LINTED = <<~RUBY
      require "rack/lint"
      require #{File.join(FOLDER, "lib/showcase").dump}
      use Rack::Lint
      run Showcase::App.new
    RUBY

    # @yield [GyreTest::Serving::Program] the served showcase
    def with_showcase(file = File.join(FOLDER, "config.ru"), app: nil)
      serve(file, "--log-format", "none", "--shutdown-timeout", "0", app: app, env: EARLY_COLLECTION) do |program|
        yield program
        refute_match(/gyre: /, program.text(:err), "the server complained")
      end
    end

    # A request whose answer is looked at while it comes.
    # @yield [String] each piece of the answer
    # @return [Net::HTTPResponse]
    def get(program, path, headers = {}, &block)
      answer = nil
      http(program) { |http| http.request_get(path, headers) { |response| (answer = response).read_body(&block) } }
      answer
    end

    def http(program, &block)
      Net::HTTP.start("127.0.0.1", program.port, nil, read_timeout: 20, &block)
    end

    # @param limit [Integer, nil] how many to wait for; nil: all
    # @return [Array<Line>]
    def lines(program, path, headers = {}, limit: nil)
      started = monotonic_s
      found = []
      rest = +""
      get(program, path, headers) do |piece|
        rest << piece
        found << Line.new(rest.slice!(/\A.*\n/).chomp, monotonic_s - started) while rest.include?("\n")
        return found if limit && found.size >= limit
      end
      found
    end

    # Lays a trap for a server that believes the Host header when it asks itself.
    # @yield [String] what to send as Host
    # @return what the block returned
    def with_forged_host
      trap = TCPServer.new("127.0.0.1", 0)
      result = yield "127.0.0.1:#{trap.local_address.ip_port}"
      assert_equal :wait_readable, trap.accept_nonblock(exception: false), "the server asked the forged host"
      result
    ensure
      trap&.close
    end

    # The most memory that the process ever had resident (proc(5), status).
    # @return [Integer] bytes
    def peak_bytes(program)
      Integer(File.read("/proc/#{program.pid}/status")[/^VmHWM:\s+(\d+) kB/, 1]) * 1024
    rescue Errno::ENOENT
      skip "this system has no /proc to read a process's memory from"
    end

    def check_figures(lines)
      events = lines.filter_map { |line| line.text[/\Adata: (.*)/, 1] }.map { |text| JSON.parse(text) }
      assert_operator events.size, :>=, 2
      assert_operator Time.iso8601(events.first["time"]), :<, Time.iso8601(events.last["time"])
      event = events.last
      assert_equal backend, event["backend"]
      %w[requests connections tasks turns resident_bytes].each { |name| assert_operator event[name], :>, 0, name }
      assert_operator event["connections"], :>=, 3
    end

    def check_poem(lines)
      assert_equal File.read(File.join(FOLDER, "jabberwocky.txt")).lines(chomp: true),
                   lines.map { |line| line.text.dup.force_encoding(Encoding::UTF_8) }
      assert_operator lines.first.at_s, :<, lines.last.at_s - 2, "the first line waited for others"
      assert_operator lines.last.at_s, :>, 2.5, "the last line was there with the first"
      assert_operator lines.map { |line| line.at_s.round(1) }.uniq.size, :>, 8, "lines came together"
    end

    def check_comparison(lines, seconds)
      news = lines.map { |line| JSON.parse(line.text) }
      assert_equal({ "asked" => 3, "answered" => 3, "done" => 1 }, news.map { |item| item["event"] }.tally)
      assert_includes seconds, news.last["at_s"]
      assert_includes seconds, lines.last.at_s
      assert_operator lines.first.at_s, :<, 1.0, "the first news waited for the last"
    end
  end
end

GyreTest::Engines.test_case("ShowcaseTest") do
  include GyreTest::Showcase

  def test_everything_slow_is_answered_at_the_same_time_and_as_it_comes
    with_showcase("config.ru", app: GyreTest::Showcase::LINTED) do |program|
      visits = {
        figures: -> { lines(program, "/figures", limit: 6) },
        poem: -> { lines(program, "/poem") },
        one_by_one: -> { lines(program, "/comparison?one-by-one") },
        at_once: -> { with_forged_host { |host| lines(program, "/comparison?at-once", { "host" => host }) } }
      }.transform_values { |visit| Thread.new(&visit) }.transform_values(&:value)

      check_figures(visits[:figures])
      check_poem(visits[:poem])
      check_comparison(visits[:one_by_one], 4.4..9.0)
      check_comparison(visits[:at_once], 1.7..3.0)
    end
  end

  def test_a_million_rows_are_sent_in_constant_memory
    with_showcase do |program|
      rows = bytes = 0
      peaks = []
      tail = +""
      answer = get(program, "/readings.csv") do |piece|
        peaks << peak_bytes(program) if bytes < 2_000_000 && bytes + piece.bytesize >= 2_000_000
        rows += piece.count("\n")
        bytes += piece.bytesize
        tail = (tail + piece).byteslice(-64..) || piece
      end
      peaks << peak_bytes(program)

      assert_equal "200", answer.code
      assert_equal "chunked", answer["transfer-encoding"]
      assert_match(/attachment; filename="readings.csv"/, answer["content-disposition"])
      assert_equal 1_000_001, rows
      assert_match(/\n1000000,[^,\n]+,-?\d+\.\d,\d+\n\z/n, tail)
      assert_operator bytes, :>, 20_000_000
      assert_operator peaks.last - peaks.first, :<, GyreTest::Showcase::GROWTH_BYTES_LIMIT
    end
  end

  def test_twenty_megabytes_are_counted_in_constant_memory
    body = Random.new(3).bytes(20_000_000)
    expected = { "bytes" => body.bytesize, "sha256" => Digest::SHA256.hexdigest(body) }
    with_showcase do |program|
      peaks = Array.new(2) do # the first time is for what a server needs at all
        http(program) { |http| assert_equal expected, JSON.parse(http.post("/upload", body, GyreTest::Showcase::BYTES).body) }
        peak_bytes(program)
      end
      assert_operator peaks.last - peaks.first, :<, GyreTest::Showcase::GROWTH_BYTES_LIMIT
    end
  end

  def test_paths_and_methods_that_are_not_there_are_refused
    with_showcase("config.ru", app: GyreTest::Showcase::LINTED) do |program|
      http(program) do |http|
        assert_equal "404", http.get("/../config.ru").code
        assert_equal "404", http.get("/source/..%2fconfig.ru").code
        assert_equal "404", http.get("/comparison?otherwise").code
        refused = http.post("/poem", "", GyreTest::Showcase::BYTES)
        assert_equal %w[405 GET], [refused.code, refused["allow"]]
        assert_equal "405", http.get("/upload").code
        head = http.head("/readings.csv")
        assert_equal ["200", nil], [head.code, head.body]
        assert_equal File.read(File.join(GyreTest::Showcase::FOLDER, "lib/poem.rb")), http.get("/source/poem.rb").body
      end
    end
  end
end

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
        press(browser, ".way button, #poem-start")
        check_growing_bars(browser)
        check_clock(browser)
        check_bars(browser, "at-once", 1.7..3.0)
        press(browser, "#readings-start, #upload-sample")
        check_poem(browser)
        check_readings_and_upload(browser)
        check_source(browser)
        check_bars(browser, "one-by-one", 4.4..9.0)
        take_pictures(browser)
        assert_empty browser.complaints, "the browser's console"
      end
    end
  end

  private

  def check_clock(browser)
    browser.wait_until("document.getElementById('link').dataset.state === 'live'")
    first = browser.wait_until("/^\\d\\d:\\d\\d:\\d\\d$/.exec(document.getElementById('clock').textContent)?.[0]")
    browser.wait_until("document.getElementById('clock').textContent !== '#{first}'", timeout_s: 3)
    %w[requests connections tasks turns memory].each do |figure|
      assert_match(/\A[\d,.]+( MB)?\z/, text(browser, "##{figure}"), figure)
    end
    assert_match(/\AGyre .* · (epoll|select) · Ruby #{RUBY_VERSION} · up for /, text(browser, "#server"))
    assert_operator browser.evaluate("document.querySelectorAll('#memory-line polyline')[0].points.length"), :>=, 2
  end

  # All three of the one way have begun, the other way's later ones have not.
  def check_growing_bars(browser)
    browser.wait_until("#{bars("at-once")}.filter((bar) => bar.getBoundingClientRect().width > 10).length === 3")
    widths = browser.evaluate("#{bars("one-by-one")}.map((bar) => bar.getBoundingClientRect().width)")
    assert_operator widths.first, :>, 10
    assert_equal 0, widths.last
  end

  def check_poem(browser)
    browser.wait_until("document.getElementById('poem-result').textContent.includes('All 12')")
    times = browser.evaluate("[...document.querySelectorAll('#poem-text .line')].map((line) => Number(line.dataset.at_s))")
    assert_equal 14, times.size
    assert_operator times.last - times.first, :>, 2, "the lines came together"
    assert_match(/gyre and gimble/, text(browser, "#poem-text"))
  end

  def check_readings_and_upload(browser)
    browser.wait_until("document.getElementById('readings-result').textContent.startsWith('1,000,000 rows')")
    assert_equal 1_000_000, browser.evaluate("document.getElementById('readings-progress').value")
    browser.wait_until("document.getElementById('upload-result').textContent.includes('SHA-256')")
    assert_match(/counted 20,000,000 bytes .* #{Digest::SHA256.hexdigest("\0" * 20_000_000)}\z/, text(browser, "#upload-result"))
    assert_operator browser.evaluate("Number(document.getElementById('upload-progress').dataset.events)"), :>=, 1
  end

  def check_source(browser)
    browser.evaluate("document.querySelector('#poem details').open = true")
    assert browser.wait_until("document.querySelector('#poem details pre')?.textContent.includes('class Poem')")
    browser.evaluate("document.querySelector('#poem details').open = false")
  end

  def check_bars(browser, way, seconds)
    browser.wait_until("document.querySelector('[data-way=#{way}]').dataset.state === 'done'")
    assert_includes seconds, Float(browser.evaluate("document.querySelector('[data-way=#{way}]').dataset.seconds"))
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
        browser.screenshot(File.join(SCREENSHOTS, "#{name}-#{dark ? "dark" : "light"}.png"))
      end
    end
  end

  def press(browser, selector)
    browser.evaluate("document.querySelectorAll('#{selector}').forEach((button) => button.click())")
  end

  def bars(way)
    "[...document.querySelectorAll('[data-way=#{way}] .bar')]"
  end

  def text(browser, selector)
    browser.evaluate("document.querySelector(#{JSON.generate(selector)}).textContent")
  end
end
