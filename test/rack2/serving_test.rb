# frozen_string_literal: true

# Apps on Rack 2.2, in processes of their own with the bundle of test/rack2/gems.rb: `gyre serve`
# and that version's rackup.

require "test_helper"
require_relative "../web/serving"

class Rack2ServingTest < Minitest::Test
  include GyreTest::Serving

  FOLDER = File.join(ROOT, "vendor", "bundle", "rack2-#{RUBY_ENGINE}-#{RbConfig::CONFIG["ruby_version"]}")
  # The lint of Rack 2.2 on both sides of the middleware that most apps have.
  APP = <<~'RUBY'
    use Rack::Lint
    use Rack::MethodOverride
    use Rack::ContentLength
    use Rack::Lint
    run(lambda do |env|
      request = Rack::Request.new(env)
      text = case env["PATH_INFO"]
             when "/form" then "#{request.request_method} #{request.POST["name"]} #{request.body.tap(&:rewind).read.bytesize}"
             when "/upload" then "#{request.POST["file"][:tempfile].read} #{env["rack.input"].tap(&:rewind).read.bytesize}"
             when "/large" then [request.body.read, request.body.tap(&:rewind).read].map(&:bytesize).inspect
             else "Rack #{Rack.release}"
             end
      [200, { "Content-Type" => "text/plain", "Set-Cookie" => "a=1\nb=2" }, [text]]
    end)
  RUBY

  def setup
    skip "Rack 2.2 is not installed; bin/setup does it" unless File.exist?("#{FOLDER}/Gemfile.lock")
  end

  def test_forms_uploads_and_cookies_of_rack_2_work
    serve2(EXE, "serve", "-b", "127.0.0.1:0") do |program|
      assert_match(/\ARack 2\.2\./, post(program, "/", "").body)
      answer = post(program, "/form", "name=Gyre&_method=put", "content-type" => "application/x-www-form-urlencoded")
      assert_equal "PUT Gyre 21", answer.body
      assert_equal %w[a=1 b=2], answer.get_fields("set-cookie")
      part = "--x\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\ncontent\r\n--x--\r\n"
      answer = post(program, "/upload", part, "content-type" => "multipart/form-data; boundary=x")
      assert_equal "content #{part.bytesize}", answer.body
      assert_equal "[300000, 300000]", post(program, "/large", "x" * 300_000, "content-type" => "text/plain").body
      assert_empty program.text(:err)
    end
  end

  def test_the_rackup_of_rack_2_finds_gyre
    serve2("-e", "load Gem.bin_path('rack', 'rackup')", "--", "-s", "gyre", "-o", "127.0.0.1", "-p", "0", "-O", "keep_alive_timout=5") do |program|
      assert_match(/\ARack 2\.2\./, post(program, "/", "").body)
      program.expect(/the option keep_alive_timout is unknown, and does nothing; did you mean keep_alive_timeout\?/, :err)
      program.signal(:INT)
      assert_equal 0, program.status.exitstatus
    end
  end

  private

  def serve2(*arguments)
    environment = without_bundle.merge("BUNDLE_GEMFILE" => "#{FOLDER}/Gemfile", "RACK_ENV" => "production", "APP_ENV" => nil)
    command = [environment, RbConfig.ruby, "-I#{LIB}", "-rbundler/setup", *arguments]
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "config.ru"), APP)
      with_subprocess(*command, chdir: folder) do |pid, out, err|
        program = Program.new(self, pid, out, err, folder)
        program.expect(/Use Ctrl-C to stop/)
        yield program
      end
    end
  end

  def post(program, path, body, headers = {})
    Net::HTTP.post(URI("http://127.0.0.1:#{program.port}#{path}"), body, { "content-type" => "text/plain" }.merge(headers))
  end
end
