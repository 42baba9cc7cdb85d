# frozen_string_literal: true

require "test_helper"
require "net/http"
require "gyre/web"

class WebBlockingTest < Minitest::Test
  # Notes the threads in which it is called.
  class App
    attr_reader :threads, :loop

    def initialize
      @threads = Hash.new { |hash, key| hash[key] = [] }
    end

    def call(env)
      path = env["PATH_INFO"]
      note(path)
      return [200, {}, ->(stream) { note(path) && stream.write(env["rack.input"].read.to_s) && stream.close }] if path == "/b/stream"

      [200, {}, Body.new(-> { note(path) })]
    end

    def note(path) = @threads[path] << Thread.current.name
  end

  # A body that notes each and close.
  Body = Struct.new(:note) do
    def each
      note.call
      yield "parts"
    end

    def close = note.call
  end

  def serve(**options, &block)
    app = App.new
    server = Gyre::Web::Server.new(Gyre::Web::Blocking.new(app, **options, &block), bind: "127.0.0.1:0").start
    yield_to = URI(server.urls.first)
    responses = %w[/b /b/c /bc /b/stream].map { |path| Net::HTTP.post(yield_to + path, "input").body }
    assert_equal %w[parts parts parts input], responses
    app.threads
  ensure
    server&.stop
    assert server.wait(60), "the server did not end" if server
  end

  OFFLOAD = "gyre offload"
  LOOP = "gyre web server"

  def test_routes_run_in_threads_with_body_and_close
    threads = serve(paths: "/b/")
    assert_equal [[OFFLOAD] * 3, [OFFLOAD] * 3, [LOOP] * 3, [OFFLOAD] * 2], threads.values_at("/b", "/b/c", "/bc", "/b/stream")
  end

  def test_a_block_may_choose
    threads = serve { |env| env["PATH_INFO"] == "/bc" }
    assert_equal [[LOOP] * 3, [OFFLOAD] * 3], threads.values_at("/b", "/bc")
  end

  def test_without_either_it_is_all_requests
    assert_equal [OFFLOAD], serve.values.flatten.uniq
    assert_raises(ArgumentError) { Gyre::Web::Blocking.new(->(_env) {}, paths: []) { true } }
  end
end
