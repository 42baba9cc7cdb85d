# frozen_string_literal: true

# Thread variables that requests set, in the log of a server in development.
# (Gyre::Web::ThreadVariables.)

require "test_helper"
require "net/http"

class WebThreadVariablesTest < Minitest::Test
  PROGRAM = <<~'RUBY'
    require "gyre/web"
    require "net/http"
    app = lambda do |env|
      Thread.current.thread_variable_set(:user, env["QUERY_STRING"])
      load "#{Dir.pwd}/gems/apm-1.2/lib/apm.rb"
      Thread.new { Thread.current.thread_variable_set(:own, 1) }.join
      Gyre.run { sleep 0 } # it sets one
      [200, {}, []]
    end
    spec = Gem::Specification.new("apm", "1.2")
    def spec.full_gem_path = "#{Dir.pwd}/gems/apm-1.2"
    Gem.loaded_specs["apm"] = spec
    Thread.current.thread_variable_set(:before, 1)
    server = Gyre::Web::Server.new(app, bind: "127.0.0.1:0", watchdog: ARGV.any?, log: Gyre::Web::ServerLog.new(errors: $stdout)).start
    3.times { Net::HTTP.get(URI("#{server.urls.first}/?1")) }
    server.stop
    server.wait
  RUBY

  def test_each_is_reported_once_with_its_gem
    first, second, *rest = run_in_development("x")
    assert_match(/gyre: the thread variable user is set in a request by the app \(-e:4\)\. Requests share a thread/, first)
    assert_match(%r{gyre: the thread variable trace is set in a request by apm 1\.2 \(.*/apm\.rb:1\)}, second)
    assert_empty rest
    assert_empty run_in_development
  end

  private

  def run_in_development(*words)
    Dir.mktmpdir do |folder|
      folder = File.realpath(folder)
      FileUtils.mkdir_p("#{folder}/gems/apm-1.2/lib")
      File.write("#{folder}/gems/apm-1.2/lib/apm.rb", "Thread.current.thread_variable_set(:trace, 1)\n")
      output = ruby("-e", PROGRAM, *words, chdir: folder)
      assert_empty output.err
      output.out.lines
    end
  end
end
