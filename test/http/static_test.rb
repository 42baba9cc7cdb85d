# frozen_string_literal: true

# Files over real connections: Gyre::HTTP::Static, and HTTP::Response with bodies from files.

require "test_helper"
require "http/serving"
require "gyre/http/static"

class HTTPStaticTest < Minitest::Test
  include GyreTest::HTTPServing

  APP = ->(env) { [200, { "content-type" => "text/plain" }, ["app #{env["REQUEST_METHOD"]}"]] }

  def setup
    @folder = Dir.mktmpdir("gyre")
    @large = Random.bytes(1_200_000)
    File.binwrite("#{@folder}/a.txt", "small")
    File.binwrite("#{@folder}/empty.txt", "")
    File.binwrite("#{@folder}/large.bin", @large)
    @root = Gyre::HTTP::Files::Root.new(@folder)
  end

  def teardown
    @root.close
    FileUtils.rm_rf(@folder)
  end

  def test_files_come_from_the_folder_and_the_rest_from_the_app
    serve_files do |served|
      client = connect(served)
      assert_equal ["small", "", @large, "app GET"], %w[a.txt empty.txt large.bin none].map { |name| client.get("GET /#{name} HTTP/1.1").body }
      assert_equal "text/plain; charset=utf-8", client.get("GET /a.txt HTTP/1.1")["content-type"]
      assert_equal "app POST", client.get("POST /a.txt HTTP/1.1", content_length: 0).body
      assert_equal "app DELETE", client.get("DELETE /a.txt HTTP/1.1").body
    end
  end

  def test_head_has_the_same_fields_and_no_body
    serve_files do |served|
      client = connect(served)
      %w[a.txt large.bin].each do |name|
        get, head = %w[GET HEAD].map { |method| client.get("#{method} /#{name} HTTP/1.1") }
        without_date = ->(response) { response.fields.reject { |field, _| field == "date" }.sort }
        assert_equal [without_date[get], ""], [without_date[head], head.body]
      end
    end
  end

  def test_ranges_and_conditions
    serve_files do |served|
      client = connect(served)
      part = client.get("GET /large.bin HTTP/1.1", range: "bytes=1000-999999")
      assert_equal [206, @large[1000..999_999], "bytes 1000-999999/1200000"], [part.status, part.body, part["content-range"]]
      several = client.get("GET /large.bin HTTP/1.1", range: "bytes=0-0,-2")
      assert_equal [200, @large], [several.status, several.body]
      fresh = client.get("GET /large.bin HTTP/1.1", if_none_match: part["etag"])
      assert_equal [304, part["etag"]], [fresh.status, fresh["etag"]]
      assert_equal 416, client.get("GET /large.bin HTTP/1.1", range: "bytes=1200000-").status
      assert_equal "small", client.get("GET /a.txt HTTP/1.1").body
    end
  end

  def test_pipelined_requests_for_files_keep_their_order
    serve_files do |served|
      client = connect(served)
      %w[large.bin a.txt large.bin].each { |name| client.request("GET /#{name} HTTP/1.1") }
      assert_equal [@large, "small", @large], Array.new(3) { client.response.body }
    end
  end

  def test_a_file_that_becomes_shorter_while_it_is_sent_ends_its_connection_only
    large = "#{@folder}/huge.bin"
    File.open(large, "wb") { |file| file.truncate(50_000_000) }
    serve(Gyre::HTTP::Static.new(APP, @root), buffers: 65_536) do |served|
      client, other = connect(served), connect(served)
      client.request("GET /huge.bin HTTP/1.1")
      client.take(1000)
      File.truncate(large, 2_000_000)
      assert_operator client.rest.bytesize, :<, 50_000_000
      assert_equal "small", other.get("GET /a.txt HTTP/1.1").body
      expect_errors(served, /shorter than its content-length/)
    end
  end

  def test_a_file_that_is_replaced_while_it_is_sent_arrives_as_it_was
    serve(Gyre::HTTP::Static.new(APP, @root), buffers: 65_536) do |served|
      client = connect(served)
      client.request("GET /large.bin HTTP/1.1")
      head = client.take_through("\r\n\r\n")
      File.binwrite("#{@folder}/new", "new")
      File.rename("#{@folder}/new", "#{@folder}/large.bin")
      assert_match(/content-length: 1200000/, head)
      assert_equal @large, client.take(1_200_000)
    end
  end

  def test_a_download_holds_no_place_of_a_request
    serve(Gyre::HTTP::Static.new(APP, @root), buffers: 65_536, limits: { requests_limit: 1 }) do |served|
      slow, other = connect(served), connect(served)
      slow.request("GET /large.bin HTTP/1.1")
      slow.take_through("\r\n\r\n")
      assert_equal "app GET", other.get("GET /none HTTP/1.1").body
      assert_equal @large, slow.take(1_200_000)
    end
  end

  def test_a_client_that_leaves_costs_no_descriptor
    serve(Gyre::HTTP::Static.new(APP, @root), buffers: 65_536) do |served|
      5.times do
        client = connect(served)
        client.request("GET /large.bin HTTP/1.1")
        client.take(1000)
        client.reset
      end
      eventually(what: "the end of the requests") { served.stats[:running].zero? }
      eventually(what: "closed files") { Dir["/proc/self/fd/*"].none? { |link| File.readlink(link).end_with?("large.bin") rescue false } }
    end
  end

  def test_a_range_of_a_large_file_is_sent_where_the_disk_was_not_asked_before
    io = File.open("#{@folder}/large.bin")
    io.fsync
    io.advise(:dontneed)
    serve_files { |served| assert_equal @large, get(served, "GET /large.bin HTTP/1.1").body }
  ensure
    io&.close
  end

  def test_a_file_that_is_not_in_memory_arrives_whole
    File.open("#{@folder}/large.bin") do |file|
      file.fsync
      file.advise(:dontneed)
    end
    serve_files do |served|
      client = connect(served)
      assert_equal @large, client.get("GET /large.bin HTTP/1.1").body
      assert_equal "small", client.get("GET /a.txt HTTP/1.1").body
    end
  end

  def test_files_are_sent_while_all_places_are_taken
    gate = Thread::Queue.new
    static = Gyre::HTTP::Static.new(->(_env) { [200, {}, [gate.pop]] }, @root)
    serve(static, limits: { requests_limit: 1, queue_limit: 0 }, exempt: static.method(:file?)) do |served|
      waiting = connect(served).request("GET /none HTTP/1.1")
      eventually { served.stats[:running] == 1 }
      client = connect(served)
      assert_equal ["small", @large, "small"], %w[a.txt large.bin a.txt].map { |name| client.get("GET /#{name} HTTP/1.1").body }
      assert_equal 503, connect(served).get("GET /b.txt HTTP/1.1").status
      gate << "app"
      assert_equal "app", waiting.response.body
    end
  end

  def test_as_a_middleware_it_takes_a_folder
    static = Gyre::HTTP::Static.new(APP, @folder, index: true)
    assert_equal ["app GET"], static.call({ "REQUEST_METHOD" => "GET", "PATH_INFO" => "/" })[2]
    assert_equal ["small"], static.call({ "REQUEST_METHOD" => "GET", "PATH_INFO" => "/a.txt" })[2]
    static.instance_variable_get(:@roots).each(&:close)
  end

  private

  def serve_files(&block)
    serve(Gyre::HTTP::Static.new(APP, @root), &block)
  end
end

# The same over TLS, whose records are read from the file.
class HTTPStaticTLSTest < HTTPStaticTest
  def tls?
    true
  end

  # It has no socket of its own to reset.
  undef_method :test_a_client_that_leaves_costs_no_descriptor
end
