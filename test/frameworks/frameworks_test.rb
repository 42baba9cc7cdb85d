# frozen_string_literal: true

# Rails, Sinatra, Roda, Hanami, Grape and Sidekiq's pages in their newest versions, each served as
# its users do, with the bundle of test/frameworks/gems.rb. `rake test:frameworks` installs that and
# runs this; bin/test leaves it out.

require "test_helper"
require "json"
require "support/memcached_server"
require "support/postgres_server"
require "support/redis_server"
require_relative "../web/serving"
require_relative "bundled"

class FrameworksTest < Minitest::Test
  include GyreTest::Serving
  include GyreTest::Bundled

  RAILS = File.join(__dir__, "rails_app.ru")

  def self.time_limit_s = 120

  def test_transactions_of_rails_stay_apart
    serve_file(RAILS) do |program|
      assert_match(/isolation level is :fiber now/, program.text(:out))
      threads = Array.new(20) { |number| Thread.new { post(program, "/entries", "number=#{number}") } }
      assert_equal ["201"], threads.map { |thread| thread.value.code }.uniq
      assert_equal "10", get(program, "/entries/count").body
    end
  end

  def test_streams_and_files_of_rails
    serve_file(RAILS) do |program|
      assert_equal "data: 0\n\ndata: 1\n\ndata: 2\n\n", get(program, "/events").body
      assert_equal File.read(RAILS), get(program, "/entries/file").body.force_encoding("UTF-8")
      assert_equal "404", get(program, "/nowhere").code
      program.signal(:TERM)
      assert_equal 0, program.status.exitstatus
    end
  end

  def test_a_file_goes_into_active_storage_and_out_of_it_in_ranges
    serve_file(RAILS) do |program|
      stored = upload(program, "/entries/upload")
      assert_equal "303", stored.code, stored.body
      path = URI(stored["location"]).path
      moved = get(program, path)
      file = URI(moved["location"]).request_uri
      assert_equal "x" * 70_000, get(program, file).body
      part = Net::HTTP.get_response(URI("http://127.0.0.1:#{program.port}#{file}"), { "range" => "bytes=0-9" })
      assert_equal %w[206 xxxxxxxxxx], [part.code, part.body]
    end
  end

  def test_a_request_of_rails_that_takes_too_long_gets_503
    serve_file(RAILS, "--request-timeout", "0.3") do |program|
      assert_equal "503", get(program, "/entries/stuck").code
      assert_equal "200", get(program, "/entries/count").code
    end
  end

  def test_two_hundred_slow_queries_on_a_pool_of_five_are_two_hundred_responses
    programs = GyreTest::PostgresServer.programs
    skip "PostgreSQL is not installed; rake test:frameworks does it as root" unless programs
    skip "the gem pg is not installed; it takes libpq-dev" unless File.read("#{bundle_folder}/Gemfile.lock").match?(/^    pg \(/)
    database = GyreTest::PostgresServer.new(programs)
    url = "postgresql:///postgres?host=#{database.folder}&user=gyre&pool=5"
    serve_file(RAILS, env: { "DATABASE_URL" => url }) do |program|
      assert_match(/^5 requests run at a time/, program.text(:out))
      threads = Array.new(200) { Thread.new { get(program, "/entries/slow") } }
      assert_equal({ %w[200 slept] => 200 }, threads.map(&:value).map { |response| [response.code, response.body] }.tally)
    end
  ensure
    database&.close
  end

  # Dalli is not in the bundle: Rails' `require "dalli"` finds Gyre's client.
  def test_the_cache_of_rails_is_memcached_by_gyres_client
    memcached = GyreTest::MemcachedServer.new(need_program("memcached"))
    serve_text(<<~RUBY) do |program|
      require "gyre/memcached/dalli"
      require "rails"
      require "action_controller/railtie"
      class CachingApp < Rails::Application
        config.eager_load = true
        config.secret_key_base = "0" * 64
        config.hosts.clear
        config.logger = Logger.new($stderr, level: :warn)
        config.cache_store = :mem_cache_store, "#{memcached.address}", { pool: false, namespace: "app" }
        config.session_store :cache_store, key: "session"
      end
      class EntriesController < ActionController::Base
        def show
          render json: [Rails.cache.fetch("entry \#{params[:id]}") { { id: params[:id], made: Time.now } }, Dalli::Client.superclass.name]
        end
        def several
          names = Array.new(20) { |number| "entry \#{number}" }
          render json: Rails.cache.read_multi(*names).transform_values { |entry| entry[:id] }
        end
        def count = render(plain: (session[:count] = session[:count].to_i + 1).to_s)
      end
      CachingApp.routes.append do
        get "/count", to: "entries#count"
        resources(:entries, only: [:show]) { get :several, on: :collection }
      end
      CachingApp.initialize!
      run CachingApp
    RUBY
      first, second = Array.new(2) do
        Array.new(20) { |id| Thread.new { get(program, "/entries/#{id}") } }.map { |thread| JSON.parse(thread.value.body) }
      end
      assert_equal first, second
      assert_equal ["Gyre::Memcached::Client"], first.map(&:last).uniq
      assert_equal Array.new(20) { |id| ["entry #{id}", id.to_s] }.to_h, JSON.parse(get(program, "/entries/several").body)
      counted = get(program, "/count")
      again = Net::HTTP.get_response(URI("http://127.0.0.1:#{program.port}/count"), { "cookie" => counted["set-cookie"][/\A[^;]+/] })
      assert_equal %w[1 2], [counted.body, again.body]
      assert_equal 1, memcached.connections_count
      memcached.kill
      assert_equal "200", get(program, "/entries/1").code
    end
  ensure
    memcached&.close
  end

  def test_a_rails_that_asks_for_threads_is_refused
    Dir.mktmpdir do |folder|
      output = run_program(*command(EXE, "serve", RAILS, "-b", "127.0.0.1:0", env: { "ISOLATION" => "thread", "FOLDER" => folder }), chdir: folder)
      assert_equal 1, output.status.exitstatus
      assert_match(/^gyre serve: config\.active_support\.isolation_level is :thread\./, output.err)
    end
  end

  # A page, a form with a file, a body that is read again, and a stream of each.
  APPS = {
    "sinatra" => <<~'RUBY',
      require "sinatra/base"
      class App < Sinatra::Base
        get("/") { "hello" }
        post("/upload") { params["file"]["tempfile"].read.bytesize.to_s + params["name"] }
        post("/signed") { params["a"] + (request.body.rewind && request.body.read) }
        get("/stream") { stream { |out| 3.times { |number| out << number.to_s } } }
      end
      run App
    RUBY
    "roda" => <<~'RUBY',
      require "roda"
      class App < Roda
        plugin :streaming
        route do |r|
          r.root { "hello" }
          r.post("upload") { r.params["file"][:tempfile].read.bytesize.to_s + r.params["name"] }
          r.post("signed") { r.params["a"] + (r.body.rewind && r.body.read) }
          r.get("stream") { stream { |out| 3.times { |number| out << number.to_s } } }
        end
      end
      run App.freeze.app
    RUBY
    "hanami" => <<~'RUBY',
      require "hanami/router"
      require "hanami/controller"
      class Upload < Hanami::Action
        def handle(request, response)
          response.body = request.params[:file][:tempfile].read.bytesize.to_s + request.params[:name]
        end
      end
      class Signed < Hanami::Action
        def handle(request, response)
          response.body = request.params[:a] + (request.body.rewind && request.body.read)
        end
      end
      run(Hanami::Router.new do
        get("/", to: ->(_env) { [200, { "content-type" => "text/plain" }, ["hello"]] })
        post("/upload", to: Upload.new)
        post("/signed", to: Signed.new)
        get("/stream", to: ->(_env) { [200, {}, ->(stream) { 3.times { |number| stream << number.to_s } }] })
      end)
    RUBY
    "grape" => <<~'RUBY'
      require "grape"
      class App < Grape::API
        format :txt
        get("/") { "hello" }
        params do
          requires :name, type: String
          requires :file, type: File
        end
        post("/upload") { params[:file][:tempfile].read.bytesize.to_s + params[:name] }
        post("/signed") { params["a"] + (env["rack.input"].rewind && env["rack.input"].read) }
        get("/stream") { stream(Enumerator.new { |out| 3.times { |number| out << number.to_s } }) }
      end
      App.compile!
      run App
    RUBY
  }.freeze

  APPS.each do |name, app|
    define_method("test_#{name}") do
      serve_text(app) do |program|
        assert_equal %w[hello 70000Gyre 012], [get(program, "/"), upload(program), get(program, "/stream")].map(&:body)
        assert_equal "ba=b", post(program, "/signed", "a=b").body
        assert_equal "404", get(program, "/nowhere").code
      end
    end
  end

  def test_sidekiqs_page
    redis = GyreTest::RedisServer.new(need_program("redis-server"))
    app = <<~RUBY
      require "sidekiq"
      require "sidekiq/web"
      require "rack/session"
      Sidekiq.configure_client { |config| config.redis = { url: "unix://#{redis.path}" } }
      use Rack::Session::Cookie, secret: "0" * 64
      run Sidekiq::Web
    RUBY
    serve_text(app) do |program|
      pages = Array.new(4) { |number| Thread.new { get(program, number.odd? ? "/" : "/queues") } }.map(&:value)
      assert_equal ["200"], pages.map(&:code).uniq
      assert_match(/Sidekiq/, pages.first.body)
    end
  ensure
    redis&.close
  end

  def test_br_and_zstd_come_from_their_gems
    %w[compressors_test client/decoders_test].each do |name|
      output = run_program(*command("-I#{ROOT}/test", "#{ROOT}/test/http/#{name}.rb"))
      assert_match(/ 0 failures, 0 errors, 0 skips/, output.out)
    end
  end

  private

  def command(*arguments, env: {})
    [bundled("RACK_ENV" => "production", **env), RbConfig.ruby, *arguments]
  end

  def serve_text(app)
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "config.ru"), app)
      serve_file(File.join(folder, "config.ru")) { |program| yield program }
    end
  end

  def serve_file(path, *flags, env: {})
    Dir.mktmpdir do |folder|
      with_subprocess(*command(EXE, "serve", path, "-b", "127.0.0.1:0", *flags, env: { "FOLDER" => folder, **env }), chdir: folder) do |pid, out, err|
        program = Program.new(self, pid, out, err, folder)
        program.expect(/Use Ctrl-C to stop/)
        yield program
      end
    end
  end

  def get(program, path)
    Net::HTTP.get_response(URI("http://127.0.0.1:#{program.port}#{path}"))
  end

  def upload(program, path = "/upload")
    request = Net::HTTP::Post.new(path)
    request.set_form([["file", "x" * 70_000, { filename: "a.txt" }], %w[name Gyre]], "multipart/form-data")
    Net::HTTP.start("127.0.0.1", program.port) { |http| http.request(request) }
  end

  def post(program, path, body)
    Net::HTTP.post(URI("http://127.0.0.1:#{program.port}#{path}"), body, "content-type" => "application/x-www-form-urlencoded")
  end
end
