# frozen_string_literal: true

# What settings put around an app: Gyre::Web::Layers; and the whole of it by `gyre serve`.

require "test_helper"
require "gyre/web"
require "web/serving"

class WebLayersTest < Minitest::Test
  include GyreTest::Serving

  APP = ->(env) { [200, { "content-type" => "text/plain" }, ["#{env["sendfile.type"]} " * 1000]] }

  def test_without_settings_the_app_is_called_itself
    layers = Gyre::Web::Layers.new(APP, log: nil)
    assert_same APP, layers.app
    assert_empty layers.env
  end

  def test_files_stand_before_compression
    Dir.mktmpdir do |folder|
      File.write("#{folder}/a.txt", "x" * 5000)
      layers = Gyre::Web::Layers.new(APP, log: nil, static: [folder], sendfile: [folder], compress: true)
      env = { "REQUEST_METHOD" => "GET", "HTTP_ACCEPT_ENCODING" => "gzip" }.merge(layers.env)
      file, app = %w[/a.txt /none].map { |path| layers.app.call(env.merge("PATH_INFO" => path)) }
      assert_equal [nil, ["x" * 5000]], [file[1]["content-encoding"], file[2]]
      assert_equal ["gzip", "X-Sendfile " * 1000], [app[1]["content-encoding"], Zlib.gunzip(app[2].join)]
    ensure
      layers&.close
    end
  end

  def test_gyre_serve_sends_files_and_compresses_by_flag_and_by_configuration
    app = 'run ->(_env) { [200, { "content-type" => "text/plain" }, ["hello " * 500]] }'
    serve("--static", ".?at=/files", "--compress", app: app, files: { "a.txt" => "a file" }) do |program|
      assert_match(/\r\n\r\na file\z/, program.get("/files/a.txt"))
      assert_match(/\r\n\r\nhello /, program.get("/files/none.txt"))
      compressed = Net::HTTP.get_response(URI("http://127.0.0.1:#{program.port}/"), { "accept-encoding" => "gzip" })
      assert_equal ["gzip", "hello " * 500], [compressed["content-encoding"], Zlib.gunzip(compressed.body)]
    end
    configuration = "static '.', at: '/files', immutable: true\nsendfile '.'\ncompress\ncompress_minimum '1k'\n"
    serve("-C", "gyre.rb", app: app, files: { "a-1a2b3c4d.txt" => "kept", "gyre.rb" => configuration }) do |program|
      assert_match(/immutable.*\r\n\r\nkept\z/m, program.get("/files/a-1a2b3c4d.txt"))
    end
  end

  def test_a_missing_folder_is_an_error_at_the_start
    [%w[--check], %w[-w 1], []].each do |flags|
      output = gyre("serve", *flags, "-b", "127.0.0.1:0", "--static", "none", files: { "config.ru" => "run ->(_) { [200, {}, []] }" }, gems: true)
      assert_equal 1, output.status.exitstatus
      assert_match(%r{\Agyre serve: static: there is no folder /.*none\n\z}, output.err)
    end
  end
end
