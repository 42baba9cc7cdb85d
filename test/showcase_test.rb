# frozen_string_literal: true

# The showcase as a visitor meets it: asked over HTTP. Its log is in showcase/log_test.rb, its page
# in a browser in showcase/page_test.rb.

require_relative "test_helper"
require_relative "showcase/visit"
require_relative "support/engines"
require "digest"

GyreTest::Engines.test_case("ShowcaseTest", backends: GyreTest::Engines::NATIVE.first(1)) do
  include GyreTest::Showcase

  def test_everything_slow_is_answered_at_the_same_time_and_as_it_comes
    with_showcase("config.ru", app: GyreTest::Showcase::LINTED) do |program|
      visits = {
        figures: -> { figures(program) },
        poem: -> { lines(program, "/poem") },
        one_by_one: -> { lines(program, "/comparison?one-by-one") },
        at_once: -> { with_forged_host { |host| lines(program, "/comparison?at-once", { "host" => host }) } }
      }.transform_values { |visit| Thread.new(&visit) }.transform_values(&:value)

      check_figures(visits[:figures])
      check_poem(visits[:poem])
      check_comparison(visits[:one_by_one], %w[asked answered] * 3, 4.4)
      check_comparison(visits[:at_once], %w[asked asked asked answered answered answered], 1.7)
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

  def test_idle_connections_are_opened_and_closed_and_the_memory_is_told
    with_showcase do |program|
      news = lines(program, "/idle").map { |line| JSON.parse(line.text) }
      assert_equal ["begin", "open", "done"], news.map { |each| each["event"] }.uniq
      assert_operator news.last["connections"], :>=, news.first["of"] - 250
      assert_operator news.last["resident_bytes"], :>, 0 if RUBY_PLATFORM.include?("linux")
      eventually { events(lines(program, "/figures") { |found| events(found).any? }).last["connections"] < 10 }
    end
  end

  def test_a_request_that_holds_the_loop_gets_the_watchdogs_report_each_time
    with_showcase do |program|
      2.times do
        # More than once only where the watchdog had no processor meanwhile.
        eventually(what: "a report") do
          http(program) { |http| http.post("/hold", "") }.body.match?(%r{the request POST /hold has held the loop of .*, computing\n.*hold\.rb:\d+})
        end
      end
    end
  end

  def test_a_thousand_requests_wait_at_once
    with_showcase do |program|
      news = lines(program, "/waiting").map { |line| JSON.parse(line.text) }
      assert_equal %w[begin waiting done], news.map { |each| each["event"] }.uniq
      assert_operator news.map { |each| each["tasks"] }.max, :>, 200
      assert_operator news.last["seconds"], :<, news.last["requests"] / 5.0
    end
  end

  # The others fail, too, on a machine that stood still, and no task waits for them.
  def test_a_shop_that_is_too_slow_is_told_with_its_limit
    late = /^gyre: unhandled in task .*the request's time is over/
    with_showcase("config.ru", app: GyreTest::Showcase::LINTED, also: late) do |program|
      last = eventually(what: "the slowest shop's end, which is the first one's on a machine that stood still") do
        news = JSON.parse(lines(program, "/comparison?at-once&limited").last.text)
        news if news["shop"] == "Borogove"
      end
      assert_equal "failed", last["event"]
      assert_match(/the request's time is over/, last["error"])
      assert_match(/^# An HTTP client/, get(program, "/guides/client.md").body)
    end
  end

  def test_a_name_is_asked_for
    with_showcase("config.ru", app: GyreTest::Showcase::LINTED) do |program|
      http(program) do |http|
        assert_match(/status: NOERROR.*abc\.backwards\.\s+60\s+IN\s+TXT\s+"cba"/m, http.get("/dns?name=abc.backwards").body)
        assert_match(/TXT\s+"waited for 1 tenths/, http.get("/dns?name=1.wait").body)
        assert_match(/status: NXDOMAIN/, http.get("/dns?name=none").body)
        assert_equal "400", http.get("/dns?name=a..b").code
      end
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
