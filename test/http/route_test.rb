# frozen_string_literal: true

# A request's route, as frameworks leave it in the env.

require "test_helper"
require "gyre/http/route"

class HTTPRouteTest < Minitest::Test
  Node = Struct.new(:path, :spec)

  def test_routes_of_frameworks
    rails81 = Node.new(Node.new(nil, :"/posts/:id(.:format)"))
    { { "gyre.route" => "/own" } => "/own", { "action_dispatch.route" => rails81 } => "/posts/:id",
      { "action_dispatch.route_uri_pattern" => "/posts/:id(.:format)" } => "/posts/:id", { "sinatra.route" => "GET /posts/:id" } => "/posts/:id",
      { "grape.routing_args" => { route_info: Node.new("/posts/:id(.json)") } } => "/posts/:id", { "grape.routing_args" => {} } => nil,
      { "action_dispatch.route" => Node.new(Node.new(nil, :"/mounted")), "sinatra.route" => "GET /in/:it" } => "/in/:it",
      { "sinatra.route" => "GET /*", "grape.routing_args" => { route_info: nil }, "action_dispatch.route" => rails81 } => "/posts/:id",
      {} => nil }.each { |env, route| route ? assert_equal(route, Gyre::HTTP::Route.of(env)) : assert_nil(Gyre::HTTP::Route.of(env)) }
  end
end
