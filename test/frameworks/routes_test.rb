# frozen_string_literal: true

# The accounting by route names what Rails, Sinatra and Grape have matched, also below each other.
# Run by `rake test:frameworks`.

require "test_helper"
require_relative "../web/serving"
require_relative "bundled"

class FrameworkRoutesTest < Minitest::Test
  include GyreTest::Serving
  include GyreTest::Bundled

  RAILS = <<~'RUBY'
    require "rails"
    require "action_controller/railtie"
    require "grape"
    require "sinatra/base"
    class RoutesApp < Rails::Application
      config.root = __dir__
      config.eager_load = true
      config.secret_key_base = "0" * 64
      config.hosts.clear
      config.logger = Logger.new($stderr, level: :fatal)
      config.consider_all_requests_local = ENV["PAGES"] == "debug"
      config.exceptions_app = ->(env) { RoutesApp.routes.call(env) } if ENV["PAGES"] == "routes"
    end
    module Blog
      class Engine < Rails::Engine
        def self.find_root(_) = Pathname(__dir__)
        isolate_namespace Blog
      end
      class EntriesController < ActionController::Base
        def show = render(plain: params[:id])
      end
    end
    Blog::Engine.routes.append { resources(:entries, only: [:show]) { get :latest, on: :collection, to: "entries#show" } }
    class PostsController < ActionController::Base
      def show = render(plain: params[:id])
      def index = params[:missing] ? raise(ActiveRecordLike) : head(:not_found)
      def boom = raise("boom")
      ActiveRecordLike = Class.new(StandardError)
    end
    class Inside < Sinatra::Base
      get("/hello/:name") { "hello" }
    end
    class Api < Grape::API
      prefix "v1"
      get("/users/:id") { "user" }
    end
    RoutesApp.routes.append do
      resources(:posts, only: %i[show index]) { get :boom, on: :member }
      scope("/:locale") { get "/about", to: ->(_env) { [200, {}, ["about"]] } }
      mount Blog::Engine => "/blog"
      mount Inside => "/sinatra"
      mount Api => "/api"
      %w[404 500].each { |status| match "/#{status}", to: ->(_env) { [status.to_i, {}, ["a page of the app"]] }, via: :all }
      get "/files/*path", to: ->(_env) { [200, {}, ["file"]] }
    end
    RoutesApp.initialize!
    run RoutesApp
  RUBY

  def test_routes_of_rails_and_of_what_is_mounted_in_it
    with_rows(RAILS) do |get|
      assert_equal({ "/posts/:id" => 2, "/:locale/about" => 1, "/entries/:id" => 3, "/entries/latest" => 1, "/hello/:name" => 2,
                     "/v1/users/:id" => 2, "/files/*path" => 1 },
        get.call(%w[/posts/1 /posts/2.json /en/about /blog/entries/1 /blog/entries/a /blog/entries/3 /blog/entries/latest
                    /sinatra/hello/a /sinatra/hello/b /api/v1/users/1 /api/v1/users/x /files/a/b]))
    end
  end

  def test_failures_of_rails_are_their_routes_and_what_no_route_matches_is_none
    %w[debug static routes].each do |pages|
      with_rows(RAILS, "PAGES" => pages) do |get|
        assert_equal({ "/posts/:id/boom" => 2, "/posts" => 2, "(none)" => 2, "/sinatra" => 1, "/blog" => 1 },
          get.call(%w[/posts/1/boom /posts/2/boom /posts /posts?missing=1 /nowhere /posts/1/2/3 /sinatra/none /blog/none]), pages)
      end
    end
  end

  # Rack::URLMap, and a middleware of Sinatra's before another app.
  def test_routes_of_sinatra
    with_rows(<<~'RUBY') do |get|
      require "sinatra/base"
      class Pages < Sinatra::Base
        get("/") { "root" }
        get("/hi/:name") { "hi" }
        get(%r{/numbers/\d+}) { "a pattern" }
        get("/fails/:id") { raise "fails" }
        set :show_exceptions, false
        set :raise_errors, false
      end
      map("/pages") { run Pages }
      map("/") { run Class.new(Pages) }
    RUBY
      assert_equal({ "/hi/:name" => 3, "/" => 2, "/fails/:id" => 2, "(none)" => 2, "\\/numbers\\/\\d+" => 2 },
        get.call(%w[/pages/hi/a /pages/hi/b /hi/d / /pages/ /fails/1 /fails/2 /pages/none /none /pages/numbers/1 /pages/numbers/2]))
    end
  end

  def test_routes_of_grape
    with_rows(<<~'RUBY') do |get|
      require "grape"
      class V2 < Grape::API
        version "v2", using: :path
        resource(:users) { get(":id") { "user" } }
      end
      class Api < Grape::API
        format :json
        resource(:users) { get(":id") { { id: params[:id] } } }
        get("/fails/:id") { raise "fails" }
        rescue_from(:all) { error!("fails", 500) }
        mount V2
      end
      Api.compile!
      map("/api") { run Api }
      run Api
    RUBY
      assert_equal({ "/users/:id" => 4, "/:version/users/:id" => 1, "/fails/:id" => 2, "(none)" => 1 },
        get.call(%w[/users/1 /users/a /v2/users/1 /fails/1 /fails/2 /api/users/7 /api/users/8.json /none]))
    end
  end

  private

  # Yields a callable that requests paths, and returns the requests of each row then.
  def with_rows(app, env = {})
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "config.ru"), app)
      command = [bundled("production", "RACK_ENV" => "production", **env), RbConfig.ruby, EXE, "serve", "-b", "127.0.0.1:0",
                 "--metrics", "127.0.0.1:0"]
      with_subprocess(*command, chdir: folder) do |pid, out, err|
        program = Program.new(self, pid, out, err, folder)
        program.expect(/Use Ctrl-C to stop/)
        metrics = URI("#{program.expect(%r{metrics on (http://\S+?)/metrics})[1]}/metrics")
        yield lambda { |paths|
          paths.each { |path| Net::HTTP.get_response(URI("http://127.0.0.1:#{program.port}#{path}")) }
          eventually { rows(metrics).then { |rows| rows if rows.values.sum >= paths.size } }
        }
      end
    end
  end

  def rows(metrics)
    Net::HTTP.get(metrics).scan(/^gyre_route_requests_total\{route="(.*)"\} (\d+)$/)
             .to_h { |label, count| [label.gsub(/\\(.)/, '\1'), count.to_i] }
  end
end
