# frozen_string_literal: true

# The flame graph of a profile in a headless Chromium, where one is installed. Screenshots go to
# tmp/profile/.

require "test_helper"
require "gyre/profile"
require "support/chromium"

class ProfileFlamesTest < Minitest::Test
  SCREENSHOTS = File.join(GyreTest::Helpers::ROOT, "tmp/profile")
  EVIL = "</script><script>document.title = 'evil'</script><img src=x onerror=alert(1)>&\u2028"
  FRAMES = [[nil, nil, nil], ["GET /posts/:id", nil, nil], ["POST #{EVIL}", nil, nil], ["<main>", "/app/config.ru", 1],
            ["Array#each", nil, nil], ["Rack::Builder#call", "/gems/rack-3.1.0/lib/rack/builder.rb", 9], ["Post#render", "/app/post.rb", 3],
            ["(garbage collection)", nil, nil]].freeze
  NODES = [[0, 0, 0, 0], [0, 1, 0, 0], [1, 3, 0, 0], [2, 5, 10, 100_000_000], [3, 6, 40, 400_000_000],
           [4, 4, 10, 200_000_000], [5, 7, 0, 100_000_000], [0, 2, 0, 0], [7, 3, 10, 100_000_000], [8, 4, 10, 100_000_000]].freeze
  PROFILE = Gyre::Profile.new(2, FRAMES, NODES)

  def test_no_text_of_the_program_is_markup_and_nothing_else_is_fetched
    html = PROFILE.html
    refute_includes html, "<img"
    refute_includes html, "\u2028"
    assert_equal 2, html.scan("</script>").size
    assert_empty html.scan(/(?:src|href)\s*=\s*"(?!data:)|url\(|@import|https?:/)
    data = JSON.parse(html[%r{<script id="data" type="application/json">(.*?)</script>}m, 1])
    assert_equal PROFILE.to_h, data
  end

  def test_a_flame_graph_is_searched_zoomed_filtered_by_route_and_fits_a_phone
    show do |browser|
      assert_equal "CPU profile", browser.evaluate("document.title")
      assert_equal "1.00 s of CPU in 2.0 s", text(browser, "#sum")
      assert_includes bars(browser), "POST #{EVIL}"
      search(browser, "post#")
      assert_equal ["Post#render"], browser.evaluate("[...document.querySelectorAll('#graph .found')].map((bar) => bar.title)")
      assert_equal "1.00 s of CPU in 2.0 s; 70 % in what is searched", text(browser, "#sum")
      browser.look_like(width: 1200, height: 700, dark: true)
      browser.screenshot("#{SCREENSHOTS}/dark.png")
      search(browser, "")
      click(browser, "Post#render")
      assert_equal ["all", "GET /posts/:id", "<main>", "Rack::Builder#call", "Post#render", "Array#each", "(garbage collection)"], bars(browser)
      assert_includes text(browser, "#info"), "Post#render700.0 ms, 70 %; itself 400.0 ms. /app/post.rb:3"
      browser.evaluate("document.getElementById('all').click()")
      assert_equal 10, bars(browser).size
      choose(browser, 2)
      assert_equal ["POST #{EVIL}", "<main>", "Array#each"], bars(browser)
      assert_equal "200.0 ms of CPU in 2.0 s", text(browser, "#sum")
      assert_includes text(browser, "#parts"), "Ruby, in C 50 %"
      browser.look_like(width: 360, height: 740, mobile: true)
      browser.visit(@url)
      assert_equal 360, browser.evaluate("Math.max(document.documentElement.scrollWidth, ...[...document.querySelectorAll('body *')].map((each) => " \
                                         "each.getBoundingClientRect().right))").round
      click(browser, "Post#render")
      assert_includes text(browser, "#info"), "Post#render"
      browser.screenshot("#{SCREENSHOTS}/phone.png")
    end
  end

  private

  def show
    skip "the flame graph is not tested in a browser: no Chromium is installed (apt-get install chromium)" unless Chromium.program
    Dir.mktmpdir do |folder|
      File.write("#{folder}/flames.html", PROFILE.html)
      @url = "file://#{folder}/flames.html"
      Chromium.open do |browser|
        browser.look_like(width: 1200, height: 700)
        browser.visit(@url)
        browser.screenshot("#{SCREENSHOTS}/light.png")
        yield browser
        assert_empty browser.complaints
      end
    end
  end

  def bars(browser) = browser.evaluate("[...document.querySelectorAll('#graph button')].map((bar) => bar.title)")

  def text(browser, selector) = browser.evaluate("document.querySelector('#{selector}').textContent")

  def click(browser, title) = browser.evaluate("[...document.querySelectorAll('#graph button')].find((bar) => bar.title === '#{title}').click()")

  def search(browser, words)
    browser.evaluate("{ const field = document.getElementById('search'); field.value = '#{words}'; field.dispatchEvent(new Event('input')) }")
  end

  def choose(browser, index)
    browser.evaluate("{ const field = document.getElementById('route'); field.selectedIndex = #{index}; field.dispatchEvent(new Event('change')) }")
  end
end
