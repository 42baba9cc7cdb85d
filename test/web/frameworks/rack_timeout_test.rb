# frozen_string_literal: true

# What becomes of the gem rack-timeout's exceptions. The part of the gem that is concerned is
# played, in a process of its own.

require "test_helper"

class WebRackTimeoutTest < Minitest::Test
  GEM = <<~'RUBY'
    module Rack
      class Timeout
        class Scheduler
          class Timeout
            def initialize(&on_timeout)
              @on_timeout = on_timeout
            end

            def timeout(_seconds)
              yield
              "without a limit"
            end
          end
        end
      end
    end
  RUBY
  PROGRAM = <<~'RUBY'
    require "gyre/web"
    require "net/http"
    Late = Class.new(Exception)
    never = Thread::Queue.new
    limit = ->(path) { Rack::Timeout::Scheduler::Timeout.new { |thread| thread.raise(Late.new("0"), "#{path} is late") } }
    app = lambda do |env|
      path = env["PATH_INFO"]
      body = limit.call(path).timeout(path == "/none" ? 0 : 0.05) { path.start_with?("/slow") ? never.pop : path }
      [200, {}, [body]]
    rescue Late => error
      [503, {}, [error.message]]
    end
    server = Gyre::Web::Server.new(app, bind: "127.0.0.1:0").start
    begin
      slow = %w[/slow1 /slow2].map { |path| Thread.new { Net::HTTP.get(URI(server.urls.first + path)) } }
      puts slow.map(&:value), %w[/quick /none].map { |path| Net::HTTP.get(URI(server.urls.first + path)) }
    ensure
      server.stop
      server.wait
    end
    puts limit.call("").timeout(1) { "elsewhere" }
  RUBY

  def test_a_request_that_is_late_gets_the_exception_and_no_other_one_and_the_server_goes_on
    output = ruby("-e", GEM + PROGRAM)
    assert_equal ["/slow1 is late\n/slow2 is late\n/quick\nwithout a limit\nwithout a limit\n", ""], [output.out, output.err]
  end
end
