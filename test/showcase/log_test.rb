# frozen_string_literal: true

# The showcase's log over HTTP: following it, and logging a line to it.

require_relative "../test_helper"
require_relative "visit"
require_relative "../support/engines"

GyreTest::Engines.test_case("ShowcaseLogTest", backends: GyreTest::Engines::NATIVE.first(1)) do
  include GyreTest::Showcase

  def test_what_is_logged_is_on_the_disk_and_seen_by_every_follower
    forged = "<b>bold</b>\n2026/11/21 00:00:00|web|fatal|forged \xFF"
    Dir.mktmpdir do |folder|
      with_showcase("config.ru", app: GyreTest::Showcase::LINTED, env: { "TMPDIR" => folder }) do |program|
        followers = Array.new(2) { Thread.new { followed(program, "the end") } }
        assert_operator JSON.parse(log(program, forged, "warn").body)["seconds"], :<, 5
        files = Dir[File.join(folder, "gyre-showcase*/log")].map { |file| File.binread(file) }
        assert_equal 1, files.join.scan(/\|visitor\|warn\|<b>bold<\/b>\\n2026.* \xFF\n/n).size, "was it acknowledged too early?"
        http(program) { |http| [http.get("/nothing"), http.post("/upload", "12345", GyreTest::Showcase::BYTES)] }
        followed(program, "POST /upload 200") # another client's, so it may be later than what follows
        log(program, "the end")

        followers.map(&:value).each { |lines| check_lines(lines, forged.scrub) }
        program.signal("INT")
        assert_predicate program.status, :success?
        assert_empty Dir.children(folder), "left behind"
      end
    end
  end

  def test_a_follower_of_the_log_goes_on_after_the_line_that_it_saw_last
    with_showcase do |program|
      http(program) { |http| 230.times { |number| http.head("/?#{number}") } } # more lines than are kept
      log(program, "one")
      number, = followed(program, "one").last
      log(program, "two")
      [["/log?after=#{number}", {}], ["/log", { "last-event-id" => number.to_s }]].each do |path, headers|
        numbers = followed(program, "two", path, headers).map(&:first)
        assert_equal (number + 1..number + numbers.size).to_a, numbers
      end
      assert_includes 150..200, followed(program, "two", "/log?after=999999").size, "that number is of another process"
    end
  end

  def test_the_figures_tell_what_came_and_what_is_on_the_disk
    with_showcase do |program|
      log(program, "one")
      follow(program) do |number, figures|
        next if number

        assert_operator figures["acknowledged"], :<=, figures["messages"]
        figures["rate"].positive? && figures["messages"] >= 3 && figures["acknowledged"] == figures["logged"]
      end
    end
  end

  def test_an_invalid_line_for_the_log_is_refused
    with_showcase do |program|
      assert_equal "400", log(program, "").code
      assert_equal "400", log(program, "hello", "nonsense").code
      assert_equal "413", log(program, "a" * 2001).code
      assert_equal "200", log(program, "a" * 2000).code
      assert_equal "405", http(program) { |http| http.delete("/log").code }
    end
  end

  private

  def check_lines(lines, message)
    assert_equal lines.map(&:first), (1..lines.size).to_a
    entries = lines.map { |_, entry| entry.values_at("service", "severity", "message") }
    [%w[web warn] << "GET /nothing 404", %w[web info] << "POST /upload 200", ["visitor", "warn", message]].each do |entry|
      assert_equal 1, entries.count(entry), entry.inspect
    end
    assert_match(/5 bytes counted, SHA-256 5994471abb0/, entries.map(&:last).join("\n"))
    refute_includes entries.map { |entry| entry[1] }, "fatal"
  end
end
