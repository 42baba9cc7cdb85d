# frozen_string_literal: true

# Files that the app names in a header: Gyre::HTTP::Sendfile.

require "test_helper"
require "rack"
require "tmpdir"
require "gyre/http"
require "gyre/http/sendfile"

class HTTPSendfileTest < Minitest::Test
  # What the server's log gets.
  Log = Struct.new(:lines) do
    def error(line) = lines << line
  end

  def setup
    Gyre::Loop.require_native("this test")
    @folder = File.realpath(Dir.mktmpdir("gyre"))
    Dir.mkdir("#{@folder}/files")
    File.write("#{@folder}/files/a.txt", "0123456789")
    File.write("#{@folder}/secret.txt", "secret")
    File.symlink("../secret.txt", "#{@folder}/files/link.txt")
    @log = Log.new([])
    @roots = [Gyre::HTTP::Files::Root.new("#{@folder}/files"), Gyre::HTTP::Files::Root.new("#{@folder}/files", at: "/protected")]
  end

  def teardown
    @bodies&.each { |body| body.close if body.respond_to?(:close) }
    @roots.each(&:close)
    FileUtils.rm_rf(@folder)
  end

  def test_the_named_file_is_sent_instead_of_the_body
    status, headers, body = call("x-sendfile" => "#{@folder}/files/a.txt", "content-type" => "text/x", "content-length" => "0")
    assert_equal [200, "text/x", "10"], [status, *headers.values_at("content-type", "content-length")]
    assert_equal "0123456789", body
    refute_includes headers.keys, "x-sendfile"
    assert_equal "0123456789", call("X-Sendfile" => "#{@folder}/files/a.txt")[2]
  end

  def test_ranges_and_conditions_are_dealt_with
    status, headers, body = call({ "x-sendfile" => "#{@folder}/files/a.txt" }, "HTTP_RANGE" => "bytes=2-3")
    assert_equal [206, "bytes 2-3/10", "23"], [status, headers["content-range"], body]
    assert_equal 304, call({ "x-sendfile" => "#{@folder}/files/a.txt", "etag" => '"mine"' }, "HTTP_IF_NONE_MATCH" => '"mine"')[0]
    status, _, body = call({ "x-sendfile" => "#{@folder}/files/a.txt" }, "HTTP_RANGE" => "bytes=2-3", :status => 404)
    assert_equal [404, "0123456789"], [status, body]
    assert_equal [200, ""], call({ "x-sendfile" => "#{@folder}/files/a.txt" }, "REQUEST_METHOD" => "HEAD").values_at(0, 2)
  end

  def test_a_file_outside_of_the_folders_is_never_sent
    ["#{@folder}/secret.txt", "#{@folder}/files/../secret.txt", "#{@folder}/files/link.txt", "#{@folder}/files", "#{@folder}/files/", "files/a.txt",
     "#{@folder}/filesx/a.txt", "#{@folder}/files//a.txt", "#{@folder}/files/a.txt\0", "/etc/passwd", "", "/proc/self/environ"].each do |path|
      status, headers, body = call("x-sendfile" => path)
      assert_equal [404, "Not Found\n", false], [status, body, headers.key?("x-sendfile")], path.inspect
      assert_includes @log.lines.pop, "which is not a file in the folders"
    end
  end

  def test_a_url_below_a_prefix_names_a_file_too
    assert_equal "0123456789", call("x-accel-redirect" => "/protected/a%2Etxt")[2]
    ["/a.txt", "/protected/../secret.txt", "/protected/%2e%2e/secret.txt", "/protected/"].each do |path|
      assert_equal 404, call("x-accel-redirect" => path)[0], path
    end
  end

  def test_the_body_of_the_app_is_closed
    closed = false
    body = ["app"]
    body.define_singleton_method(:close) { closed = true }
    call({ "x-sendfile" => "#{@folder}/files/a.txt" }, body: body)
    assert closed
  end

  def test_without_the_header_the_response_is_the_apps
    assert_equal [200, { "content-type" => "text/plain" }, "app"], call("content-type" => "text/plain")
  end

  def test_a_client_cannot_choose_the_file_by_a_proxys_headers
    seen = nil
    app = ->(env) { (seen = env) && [200, {}, []] }
    Gyre::HTTP::Sendfile.new(app, @roots, log: @log).call("REQUEST_METHOD" => "GET", "HTTP_X_SENDFILE_TYPE" => "X-Accel-Redirect",
                                                          "HTTP_X_ACCEL_MAPPING" => "/=/protected/")
    assert_equal ["REQUEST_METHOD"], seen.keys
  end

  def test_rack_sendfile_names_files_for_it
    path = "#{@folder}/files/a.txt"
    body = ["app"]
    body.define_singleton_method(:to_path) { path }
    app = Rack::Sendfile.new(->(_env) { [200, {}, body] })
    status, headers, sent = Gyre::HTTP::Sendfile.new(app, @roots, log: @log)
                                                .call("REQUEST_METHOD" => "GET", "PATH_INFO" => "/", "sendfile.type" => "X-Sendfile")
    assert_equal [200, "10", "0123456789"], [status, headers["content-length"], sent.to_enum.to_a.join]
    assert_instance_of Gyre::HTTP::Files::Body, sent
    sent.close
  end

  private

  def call(headers, env = {})
    status = env.delete(:status) || 200
    body = env.delete(:body) || ["app"]
    app = ->(_env) { [status, headers, body] }
    env = { "REQUEST_METHOD" => "GET", "PATH_INFO" => "/" }.merge(env)
    status, headers, body = Gyre::HTTP::Sendfile.new(app, @roots, log: @log).call(env)
    text = body.to_enum.to_a.join
    body.close if body.respond_to?(:close)
    [status, headers, text]
  end
end
