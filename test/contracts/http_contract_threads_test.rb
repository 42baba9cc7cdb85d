# frozen_string_literal: true

# A request belongs to its app, whatever thread the app uses it from, and only until it has ended:
# each primitive from a foreign thread, what ends such a wait, and what a kept piece of an ended
# request has.

require "test_helper"
require "timeout"
require "http/contract"

module HTTPThreadsContract
  include GyreTest::HTTPServing

  # Sends the request's body once the app has put something into the queue.
  def assert_response_to_body_after(queue, expected, app)
    serve(app) do |served|
      client = connect(served).request("POST / HTTP/1.1", "", content_length: 3)
      queue.pop
      assert_equal expected, client.write("abc").response.body
    end
  end

  # Has the app's block run in a thread of its own, which the app waits for.
  IN_THREAD = ->(&block) { Thread.new(&block).tap { |thread| thread.report_on_exception = false }.value }

  # --- the request's body ---

  READINGS = {
    "read" => ->(input) { input.read },
    "read in pieces" => ->(input) { [input.read(4), input.read(1), input.read(100), input.read(1)].inspect },
    "readpartial" => ->(input) { (+"").tap { |read| read << input.readpartial(5) until read.bytesize == 9 } },
    "gets" => ->(input) { [input.gets, input.gets, input.gets].inspect },
    "each" => ->(input) { input.each.to_a.inspect },
    "close" => ->(input) { input.close.inspect }
  }

  EXPECTED = {
    "read" => "line\nrest", "read in pieces" => '["line", "\n", "rest", nil]', "readpartial" => "line\nrest",
    "gets" => '["line\n", "rest", nil]', "each" => '["line\n", "rest"]', "close" => "nil"
  }

  def test_a_body_is_read_from_another_thread_whenever_it_comes
    app = lambda do |env|
      IN_THREAD.call { [200, {}, [READINGS.fetch(env["PATH_INFO"].delete_prefix("/").tr("_", " ")).call(env["rack.input"])]] }
    end
    serve(app) do |served|
      client = connect(served)
      READINGS.each_key do |name|
        line = "POST /#{name.tr(" ", "_")} HTTP/1.1"
        assert_equal EXPECTED[name], client.get(line, "line\nrest", content_length: 9).body, name
        assert_equal EXPECTED[name], client.get(line, "5\r\nline\n\r\n4\r\nrest\r\n0\r\n\r\n", transfer_encoding: "chunked").body, name
        client.request(line, "", content_length: 9)
        client.silent?(0.005)
        client << "line\n"
        client.silent?(0.005) unless name == "close"
        client << "rest"
        assert_equal EXPECTED[name], client.response.body, "#{name}, when the body is late"
      end
    end
  end

  def test_trailers_are_told_in_another_thread
    app = lambda do |env|
      [200, {}, [IN_THREAD.call { env["rack.input"].read.then { env["gyre.trailers"].call.inspect } }]]
    end
    serve(app) do |served|
      response = get(served, "POST / HTTP/1.1", "1\r\na\r\n0\r\nx-sum: 5\r\n\r\n", transfer_encoding: "chunked")
      assert_equal({ "x-sum" => "5" }.inspect, response.body)
    end
  end

  # --- the response ---

  def test_a_stream_is_written_read_and_closed_in_another_thread
    app = lambda do |_env|
      body = lambda do |stream|
        IN_THREAD.call do
          stream.write("a", "b")
          stream << "c"
          stream.flush
          stream << stream.gets
          stream << stream.read
          200.times { stream.write("x" * 10_000) } # more than the socket holds
          stream.close_write
          stream.close
        end
      end
      [200, {}, body]
    end
    serve(app, buffers: 4096) do |served|
      response = get(served, "POST / HTTP/1.1", "line\nrest", content_length: 9)
      assert_equal "abcline\nrest#{"x" * 2_000_000}", response.body
    end
  end

  def test_a_body_may_yield_in_another_thread
    app = lambda do |env|
      body = Object.new
      body.define_singleton_method(:each) { |&block| IN_THREAD.call { 3.times { |number| block.call("#{number}#{"y" * 50_000}") } } }
      [200, env["PATH_INFO"] == "/sized" ? { "content-length" => "150003" } : {}, body]
    end
    serve(app) do |served|
      client = connect(served)
      2.times do
        %w[/ /sized].each { |path| assert_equal 150_003, client.get("GET #{path} HTTP/1.1").body.bytesize }
      end
    end
  end

  def test_hints_are_sent_and_ends_are_told_from_another_thread
    finished = Thread::Queue.new
    app = lambda do |env|
      IN_THREAD.call do
        sent = env["rack.early_hints"].call({ "link" => "</style.css>" })
        env["rack.response_finished"] << ->(_env, status, _headers, error) { finished << [status, error] }
        [200, {}, [sent.inspect]]
      end
    end
    serve(app) do |served|
      client = connect(served).request
      assert_equal [103, "</style.css>"], client.response(interim: true).then { |response| [response.status, response["link"]] }
      assert_equal "true", client.response.body
      assert_equal [200, nil], finished.pop
    end
  end

  # --- others ---

  def test_threads_that_read_take_no_other_request_with_them
    ready = Thread::Queue.new
    app = lambda do |env|
      next [200, {}, [IN_THREAD.call { env["rack.input"].read }]] if env["PATH_INFO"] == "/read"

      ready << true
      turns = 0
      until env["gyre.server"].empty?
        turns += 1
        sleep 0
        Thread.pass # else the readers wait a slice of time for each step
      end
      [200, {}, [turns.to_s]]
    end
    waiting = [true]
    serve(app, env: { "gyre.server" => waiting }) do |served|
      victims = Array.new(5) { connect(served).request }
      5.times { ready.pop }
      readers = Array.new(3) { connect(served).request("POST /read HTTP/1.1", "a", content_length: 3) }
      readers.each { |reader| reader << "bc" }
      assert_equal ["abc"] * 3, readers.map { |reader| reader.response.body }
      waiting.clear
      victims.each { |victim| assert_operator victim.response.body.to_i, :>, 0 }
    end
  end

  def test_a_fiber_of_another_loop_reads_and_its_loop_goes_on
    goes_on = Thread::Queue.new
    app = lambda do |env|
      response = IN_THREAD.call do
        Gyre.run do |task|
          beating = task.async { loop { sleep(0.001).then { goes_on << true if goes_on.empty? } } }
          env["rack.input"].read.tap { beating.stop }
        end
      end
      [200, {}, [response]]
    end
    assert_response_to_body_after(goes_on, "abc", app)
  end

  # --- the end of such a wait ---

  def test_a_thread_may_be_interrupted_while_it_waits_and_the_request_goes_on
    interrupted = Thread::Queue.new
    app = lambda do |env|
      first = IN_THREAD.call do
        Timeout.timeout(0.01) { env["rack.input"].read(3) }
      rescue Timeout::Error
        "late"
      end
      interrupted << true
      [200, {}, [first, " ", IN_THREAD.call { env["rack.input"].read }]]
    end
    assert_response_to_body_after(interrupted, "late abc", app)
  end

  def test_a_killed_thread_leaves_nothing
    killed = Thread::Queue.new
    app = lambda do |env|
      thread = Thread.new { env["rack.input"].read }
      sleep 0.001 until thread.status == "sleep"
      thread.kill.join
      killed << true
      [200, {}, [env["rack.input"].read]]
    end
    assert_response_to_body_after(killed, "abc", app)
  end

  def test_a_thread_gets_an_error_when_the_server_ends_meanwhile
    errors = Thread::Queue.new
    threads = Thread::Queue.new
    app = lambda do |env|
      threads << Thread.new do
        env["rack.input"].read
      rescue Exception => error # rubocop:disable Lint/RescueException
        errors << error
        begin
          env["rack.input"].read
        rescue Exception => again # rubocop:disable Lint/RescueException
          errors << again
        end
      end
      sleep
    end
    serve(app) do |served|
      connect(served).request("POST / HTTP/1.1", "", content_length: 3)
      eventually { threads.size == 1 && served.stats[:running] == 1 }
    end
    2.times { assert_kind_of IOError, errors.pop(true) } if threads.pop.join(GyreTest::HTTPServing::PATIENCE_S)
    assert_empty errors
  end

  # --- the end of a request ---

  def test_a_fiber_that_waits_for_a_body_learns_of_the_end_of_its_request
    told = Thread::Queue.new
    app = lambda do |env|
      next [200, {}, ["second"]] if env["PATH_INFO"] == "/second"

      Fiber.schedule do
        env["rack.input"].read
      rescue StandardError => error
        told << error
      end
      [200, {}, ["first"]]
    end
    serve(app) do |served|
      client = connect(served).request("POST / HTTP/1.1", "", content_length: 3)
      assert_equal "first", client.response.body
      assert_kind_of StandardError, told.pop
      assert_equal "second", get(served, "GET /second HTTP/1.1").body
    end
  end

  # Full hijacks and malformed chunks.
  module HTTP1
    # The second fiber is ready already when the body comes, and so runs before the first, which
    # waits for it.
    def test_a_fiber_that_waits_for_a_body_is_the_only_one_that_reads_it
      refused = Thread::Queue.new
      app = lambda do |env|
        next [200, {}, ["next"]] if env["PATH_INFO"] == "/next"

        connection = env["rack.hijack"]
        first = nil
        reader = Fiber.schedule { first = [connection.read_body(100)] }
        sleep(0) until Fiber.scheduler.waits.any? { |wait| wait.fiber.equal?(reader) && wait.state != :ready } # it may have given way first
        until first
          begin
            flunk "read #{connection.read_body(100).inspect} before the fiber that waits" unless first
          rescue IOError => error
            refused << error.message
            sleep(0)
          end
        end
        [200, {}, [first.inspect]]
      end
      serve(app) do |served|
        client = connect(served)
        { [{ content_length: 4 }, ["body"]] => ["body"].inspect,
          [{ transfer_encoding: "chunked" }, ["0\r\nx-sum", ": 1\r\n\r\n"]] => [nil].inspect }.each do |(fields, pieces), expected|
          refused.clear
          client.request("POST / HTTP/1.1", "", **fields)
          pieces.each do |piece|
            assert_equal "another fiber is reading this request's body", refused.pop
            client << piece
          end
          client.request("GET /next HTTP/1.1")
          assert_equal expected, client.response.body
          assert_equal "next", client.response.body
        end
      end
    end

    def test_errors_of_a_body_come_up_in_the_thread_that_reads
      errors = Thread::Queue.new
      app = lambda do |env|
        IN_THREAD.call do
          env["rack.input"].read
        rescue StandardError => error
          errors << [error.class, error.backtrace.grep(/#{__FILE__}/).any?]
          raise
        end
      end
      serve(app) do |served|
        assert_equal 400, get(served, "POST / HTTP/1.1", "zz\r\n", transfer_encoding: "chunked").status
        assert_equal [Gyre::HTTP::RequestError, true], errors.pop
        connect(served).request("POST / HTTP/1.1", "", content_length: 5).close
        assert_equal [Gyre::HTTP::RequestCut, true], errors.pop
      end
    end

    def test_the_socket_is_hijacked_in_another_thread
      app = lambda do |env|
        talk = ->(io) { IN_THREAD.call { io.write("you said #{io.read(5)}").then { io.close } } }
        case env["PATH_INFO"]
        when "/full" then IN_THREAD.call { env["rack.hijack"].call }.then { |io| talk.call(io) } && [200, {}, []]
        else [200, { "rack.hijack" => talk }, []]
        end
      end
      serve(app) do |served|
        client = connect(served).request("GET /full HTTP/1.1", "hello")
        assert_equal "you said hello", client.rest
        client = connect(served).request("GET /partial HTTP/1.1")
        client << "hello"
        assert_equal "you said hello", client.response.body
      end
    end

    def test_reset_and_close_from_another_thread_end_the_connection
      app = ->(env) { IN_THREAD.call { env["rack.hijack"].public_send(env["PATH_INFO"].delete("/")) } && nil }
      serve(app) do |served|
        assert_predicate connect(served).request("GET /close HTTP/1.1"), :ended?
        assert_predicate connect(served).request("GET /reset HTTP/1.1"), :reset?
        served.errors.clear # an app owes a response
        eventually { served.stats[:connections].zero? }
      end
    end

    def test_what_is_kept_of_an_ended_request_raises_and_the_next_one_is_whole
      kept = nil
      seen = Thread::Queue.new
      attempts = {
        read: ->(env, _) { env["rack.input"].read(10) }, gets: ->(env, _) { env["rack.input"].gets },
        hints: ->(env, _) { env["rack.early_hints"].call({}) }, hijack: ->(env, _) { env["rack.hijack"].call },
        trailers: ->(env, _) { env["gyre.trailers"].call }, write: ->(_, stream) { stream.write("x") },
        response: ->(env, _) { env["rack.hijack"].write_response(200, {}, []) }
      }
      app = lambda do |env|
        if env["PATH_INFO"] == "/first"
          env["rack.input"].read
          body = lambda do |stream|
            kept = [env, stream]
            stream << "first"
          end
          next [200, {}, body]
        end

        attempts.each do |name, attempt|
          [->(&block) { block.call }, IN_THREAD].each do |way|
            way.call { attempt.call(*kept) }
            seen << [name, :nothing]
          rescue IOError, Errno::EPIPE => error
            seen << [name, error.class]
          end
        end
        kept.first["rack.hijack"].close
        [200, {}, [env["rack.input"].read]]
      end
      serve(app) do |served|
        first = "POST /first HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"
        second = "POST /second HTTP/1.1\r\nhost: a\r\ncontent-length: 6\r\n\r\nSECRET"
        client = connect(served)
        [[first + second], [first, second]].each do |messages| # pipelined, and one after the other
          bodies = messages.flat_map do |message|
            client << message
            Array.new(message.scan("HTTP/1.1").size) { client.response.body }
          end
          assert_equal %w[first SECRET], bodies
          told = Array.new(seen.size) { seen.pop }
          assert_equal attempts.keys.flat_map { |name| [name] * 2 }, told.map(&:first)
          assert_empty told.select { |_, error| error == :nothing }
        end
      end
    end
  end
end

GyreTest::HTTPContract.run(HTTPThreadsContract)
