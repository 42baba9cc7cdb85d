# frozen_string_literal: true

# Profiles name requests by their frameworks' routes (ext/gyre/http/route.c), although a sample
# calls no code of a framework.

require "test_helper"
require "gyre/profile"

class HTTPRouteLabelsTest < Minitest::Test
  PROGRAM = <<~'RUBY'
    require "gyre/web"
    require "net/http"
    module ActionDispatch; end
    Node = Struct.new(:path, :spec)
    ROUTES = { "/rails" => { "action_dispatch.route" => Node.new(Node.new(nil, :"/posts/:id(.:format)")) },
               "/pattern" => { "action_dispatch.route_uri_pattern" => "/old/:id(.:format)" }, "/sinatra" => { "sinatra.route" => "GET /hi/:name" },
               "/grape" => { "grape.routing_args" => { route_info: Node.new("/api/:v(.json)") } }, "/own" => { "gyre.route" => "mine" },
               "/mounted" => { "action_dispatch.route" => Node.new(Node.new(nil, :"/mounted")), "sinatra.route" => "GET /in/:it" },
               "/passed" => { "sinatra.route" => "GET /*", "action_dispatch.route" => Node.new(Node.new(nil, :"/photos/:id")) }, "/plain/123" => {} }
    app = lambda do |env|
      env.merge!(ROUTES.fetch(env["PATH_INFO"]))
      end_s = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) + 0.06
      nil while Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) < end_s
      [200, {}, []]
    end
    Gyre.run do |task|
      server = Gyre::Web::Server.new(app, bind: "127.0.0.1:0", signals: false).listen
      url = server.urls.first
      serving = task.async { server.run }
      Net::HTTP.get(URI(url + "/own"))
      profile = Gyre::Profile.take(interval_s: 0.003) { ROUTES.each_key { |path| 2.times { Net::HTTP.get(URI(url + path)) } } }
      puts profile.enum_for(:each_stack).group_by(&:first).select { |_, stacks| stacks.sum(&:last) > 50_000_000 }.keys.compact.sort - ["main"]
      server.stop
    end
  RUBY

  def test_labels_are_the_routes
    Gyre::Profile.check
    run = ruby("-rgyre", "-e", PROGRAM, gems: true)
    assert_equal ["/api/:v", "/hi/:name", "/in/:it", "/old/:id", "/photos/:id", "/plain/*", "/posts/:id", "mine"], run.out.lines(chomp: true), run.err
    assert_empty run.err
  rescue Gyre::Error => error
    skip error.message
  end
end
