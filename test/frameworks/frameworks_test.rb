# frozen_string_literal: true

# Rails, Sinatra and Roda in their newest versions, each served as its users do, with the bundle of
# test/frameworks/gems.rb. `rake test:frameworks` installs that and runs this; bin/test leaves it
# out.

require "test_helper"
require_relative "../web/serving"

class FrameworksTest < Minitest::Test
  include GyreTest::Serving

  FOLDER = File.join(ROOT, "vendor", "bundle", "frameworks-#{RUBY_ENGINE}-#{RbConfig::CONFIG["ruby_version"]}")
  RAILS = File.join(__dir__, "rails_app.ru")

  def self.time_limit_s = 120

  def setup
    skip "the newest Rails needs Ruby 3.2, this is #{RUBY_VERSION}" if RUBY_VERSION < "3.2"
    skip "the frameworks are not installed; rake test:frameworks does it" unless File.exist?("#{FOLDER}/Gemfile.lock")
  end

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

  def test_a_rails_that_asks_for_threads_is_refused
    Dir.mktmpdir do |folder|
      output = run_program(*command(EXE, "serve", RAILS, "-b", "127.0.0.1:0", env: { "ISOLATION" => "thread", "FOLDER" => folder }), chdir: folder)
      assert_equal 1, output.status.exitstatus
      assert_match(/^gyre serve: config\.active_support\.isolation_level is :thread\./, output.err)
    end
  end

  def test_sinatra
    app = <<~'RUBY'
      require "sinatra/base"
      class App < Sinatra::Base
        get("/") { "hello" }
        post("/form") { params["name"] }
        get("/stream") { stream { |out| 3.times { |number| out << number.to_s } } }
      end
      run App
    RUBY
    serve_text(app) do |program|
      assert_equal %w[hello Gyre 012], [get(program, "/"), post(program, "/form", "name=Gyre"), get(program, "/stream")].map(&:body)
    end
  end

  def test_roda
    app = <<~'RUBY'
      require "roda"
      class App < Roda
        route do |r|
          r.root { "hello" }
          r.post("form") { r.params["name"] }
        end
      end
      run App.freeze.app
    RUBY
    serve_text(app) do |program|
      assert_equal %w[hello Gyre], [get(program, "/"), post(program, "/form", "name=Gyre")].map(&:body)
    end
  end

  private

  def command(*arguments, env: {})
    environment = without_bundle.merge("BUNDLE_GEMFILE" => "#{FOLDER}/Gemfile", "RACK_ENV" => "production", "RAILS_ENV" => "production",
                                       "APP_ENV" => nil, "PORT" => nil, **env)
    [environment, RbConfig.ruby, "-I#{LIB}", "-rbundler/setup", *arguments]
  end

  def serve_text(app)
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "config.ru"), app)
      serve_file(File.join(folder, "config.ru")) { |program| yield program }
    end
  end

  def serve_file(path)
    Dir.mktmpdir do |folder|
      with_subprocess(*command(EXE, "serve", path, "-b", "127.0.0.1:0", env: { "FOLDER" => folder }), chdir: folder) do |pid, out, err|
        program = Program.new(self, pid, out, err, folder)
        program.expect(/Use Ctrl-C to stop/)
        yield program
      end
    end
  end

  def get(program, path)
    Net::HTTP.get_response(URI("http://127.0.0.1:#{program.port}#{path}"))
  end

  def post(program, path, body)
    Net::HTTP.post(URI("http://127.0.0.1:#{program.port}#{path}"), body, "content-type" => "application/x-www-form-urlencoded")
  end
end
