# frozen_string_literal: true

# A new user's first minutes on this Ruby, with an empty HOME: bin/demo; the gem installed into an
# empty GEM_HOME; under a Gemfile with gyre and rack alone each require and command of the README's
# table and the guides' first programs. Slow (installs and compiles).
require "test_helper"
require "fileutils"
require "net/http"
require "rubygems"
require "socket"
require "support/guide"
require "tmpdir"

class FirstMinutesTest < Minitest::Test
  def self.time_limit_s = 1200

  README = File.read("#{ROOT}/README.md", encoding: "UTF-8")
  # Which gem a part needs beside the Gemfile's, and what its error has.
  NEEDS = { "gyre/async" => /gem "async"|Async needs Ruby 3.3/, "gyre/memcached/dalli" => /gem "logger"/, "gyre/log/client" => /gem "logger"/ }.freeze
  # Ruby 3.4's own, of what Ruby 4.0 no longer brings along.
  ADVICE = /^.*: warning: logger was loaded from the standard library.*\nYou can add logger to your Gemfile.*\n/.freeze
  # As test/gem_test.rb has it.
  QUICK = "-j2 CFLAGS=-fPIC\\ -std=gnu11\\ -fvisibility=hidden"
  # Guides whose first program is a program of its own, no config.ru.
  FIRST_PROGRAMS = %w[README.md docs/getting-started.md docs/tasks.md docs/loop.md docs/net.md docs/testing.md].freeze

  def test_the_demo_starts_and_its_page_websocket_and_event_stream_answer
    Dir.mktmpdir("gyre-home") do |home|
      with_subprocess({ **without_bundle, "HOME" => home }, "#{ROOT}/bin/demo", "--bind", "tcp://127.0.0.1:0") do |_, out, err|
        printed = +""
        Thread.new { err.each_line { |line| printed << line } }
        Thread.new { out.each_line { |line| printed << line } }
        eventually(within_s: 600, what: "the demo's address") { printed[%r{http://127\.0\.0\.1:(\d+)}] }
        port = Integer(printed[%r{http://127\.0\.0\.1:(\d+)}, 1])
        assert_match(/<title>/, Net::HTTP.get(URI("http://127.0.0.1:#{port}/")))
        assert_equal "HTTP/1.1 101", opening(port, "/talk", "upgrade: websocket", "connection: upgrade",
          "sec-websocket-version: 13", "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==")
        assert_equal "HTTP/1.1 200", opening(port, "/log", "accept: text/event-stream")
        refute_match(/LoadError|Error:/, printed)
      end
    end
  end

  def test_under_a_gemfile_with_gyre_and_rack_alone_everything_that_is_promised_runs
    skip "this checkout has no extension" unless Dir["#{LIB}/gyre/#{RUBY_ENGINE}-#{RbConfig::CONFIG["ruby_version"]}/gyre_ext.*"].any?
    with_application do |environment, folder|
      requires.each { |name| check_require(name, environment, folder) }
      commands.each do |words|
        run = bundled(environment, folder, "gyre", *words, "--help")
        assert_equal [true, ""], [run.status.success?, run.err], words.inspect
        assert_match(/Usage: /, run.out)
      end
      FIRST_PROGRAMS.each do |page|
        code, expected = File.read("#{ROOT}/#{page}", encoding: "UTF-8").match(/^```ruby\n(.*?)^```\n\n```text\n(.*?)^```$/m).captures
        File.write("#{folder}/app.rb", code)
        run = bundled(environment, folder, "ruby", "app.rb")
        assert_equal [expected, ""], [GyreTest::Guide.timeless(run.out), run.err], page
      end
      run = bundled(environment, folder, "gyre", "log", "send", "-p", GyreTest::Helpers.free_port.to_s, "shop", "info", "hello")
      assert_match(/\Agyre log send: no server listens on /, run.err)
      assert_equal 1, run.err.lines.size
    end
  end

  private

  # Returns the start of the response.
  def opening(port, path, *fields)
    socket = TCPSocket.new("127.0.0.1", port)
    socket.write(["GET #{path} HTTP/1.1", "host: 127.0.0.1:#{port}", *fields, "", ""].join("\r\n"))
    socket.wait_readable(60) ? socket.readpartial(12) : "nothing"
  ensure
    socket&.close
  end

  def requires = README.scan(%r{`(gyre(?:/\w+)*)`}).flatten.uniq

  def commands = README.scan(/`gyre ([a-z]+)/).flatten.uniq.map { |word| [word] }

  def check_require(name, environment, folder)
    run = bundled(environment, folder, "ruby", "-w", "-e", "require #{name.dump}")
    return assert_equal ["", ""], [run.out, run.err.gsub(ADVICE, "")], name if run.status.success?

    assert_match(NEEDS.fetch(name) { flunk("require #{name.dump}: #{run.err}") }, run.err[/^.*\(LoadError\)$/].to_s, name)
  end

  def bundled(environment, folder, *words) = run_program(environment, RbConfig.ruby, "-S", "bundle", "exec", *words, chdir: folder)

  # Yields an environment and a folder with a Gemfile, whose gems are in a GEM_HOME of their own.
  def with_application
    Dir.mktmpdir("gyre-first") do |folder|
      environment = { **without_bundle, "HOME" => folder, "GEM_HOME" => "#{folder}/gems", "GEM_PATH" => "#{folder}/gems",
                      "GYRE_BACKEND" => nil, "MAKEFLAGS" => QUICK, "BUNDLE_SILENCE_ROOT_WARNING" => "true" }
      gem_command(environment, "build", "gyre.gemspec", "--output", "#{folder}/gyre.gem")
      gem_command(environment, "install", "--local", "--no-document", "#{folder}/gyre.gem")
      gem_command(environment, "install", "--local", "--no-document", Gem.loaded_specs.fetch("rack").cache_file)
      FileUtils.mkdir_p("#{folder}/app")
      File.write("#{folder}/app/Gemfile", %(source "#{Gem.sources.first.uri}"\ngem "gyre"\ngem "rack"\n))
      run = run_program(environment, RbConfig.ruby, "-S", "bundle", "install", "--local", within_s: 600, chdir: "#{folder}/app")
      assert run.status.success?, run.out + run.err
      yield environment, "#{folder}/app"
    end
  end

  def gem_command(environment, *arguments)
    run = run_program(environment, RbConfig.ruby, "-S", "gem", *arguments, within_s: 900)
    assert run.status.success?, "gem #{arguments.first}:\n#{run.out}\n#{run.err}"
  end
end
