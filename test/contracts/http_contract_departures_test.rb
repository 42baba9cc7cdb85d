# frozen_string_literal: true

# A request's own limit of time, and env["gyre.client_gone"]: what ends a request before its app
# does.

require "test_helper"
require "http/contract"

module HTTPDeparturesContract
  include GyreTest::HTTPServing

  def test_a_request_that_waits_too_long_is_cancelled_and_gets_503
    ended = []
    app = lambda do |_env|
      Thread::Queue.new.pop
    rescue => error
      ended << error
    ensure
      ended << :ensured
    end
    serve(app, limits: { request_timeout_s: 0.02 }, log_accesses: true) do |served|
      client = connect(served)
      response = client.get("GET /slow HTTP/1.1")
      assert_equal [503, "the request took too long\n"], [response.status, response.body]
      assert_equal [:ensured], ended
      expect_errors(served, %r{\AGET /slow: unhandled in the app: .*: the request took longer than 0.02 s})
      assert_equal 503, served.accesses[0][1]
      assert_equal 503, client.get.status # the connection is kept
      expect_errors(served, /took longer/)
    end
  end

  def test_an_app_may_respond_to_the_end_of_its_time_by_itself
    app = lambda do |_env|
      sleep
    rescue Gyre::HTTP::RequestTimeout => error
      [504, {}, [error.message]]
    end
    serve(app, limits: { request_timeout_s: 0.02 }) do |served|
      assert_equal [504, "the request took longer than 0.02 s"], get(served).then { |response| [response.status, response.body] }
    end
  end

  # An app that waits for the departure of its client, and notes what it was told.
  def waiting_app(notes)
    lambda do |env|
      env["rack.input"].read
      notes << :waiting
      notes << env["gyre.client_gone"].wait
      notes << env["gyre.client_gone"].gone?
      [200, {}, []]
    end
  end

  def test_a_client_that_has_ended_its_side_is_not_gone
    return if tls? # its end is the connection's

    gate = Thread::Queue.new
    app = lambda do |env|
      gone = env["gyre.client_gone"]
      gone.gone?
      gate.pop
      [200, {}, [gone.gone?.to_s]]
    end
    serve(app) do |served|
      client = connect(served).request
      client.socket.shutdown(:WR)
      eventually { served.stats[:running] == 1 }
      hold(served) { nil }
      gate << true
      assert_equal "false", client.response.body
    end
  end

  # What Promise#resolve calls may let other requests be parsed.
  def test_the_end_of_a_promise_mixes_no_requests_up
    asked = Thread::Queue.new
    begun = false
    app = lambda do |env|
      begun = true if env["PATH_INFO"] == "/another/one"
      if env["PATH_INFO"] == "/first"
        env["gyre.client_gone"].client_gone.define_singleton_method(:resolve) do |value|
          asked << true
          sleep 0.001 until begun
          super(value)
        end
      end
      [200, {}, [env["PATH_INFO"], env.fetch("HTTP_X")]]
    end
    serve(app) do |served|
      client = connect(served)
      %w[/first /second].each { |path| client.request("GET #{path} HTTP/1.1", x: path) }
      asked.pop
      assert_equal "/another/oneyes", get(served, "GET /another/one HTTP/1.1", x: "yes").body
      assert_equal %w[/first/first /second/second], [client.response.body, client.response.body]
    end
  end

  # Not even the code of a promise may stand between the loop and other connections.
  def test_each_departure_is_told_in_a_fiber_of_its_own_which_may_wait
    gate = Thread::Queue.new
    fibers = Thread::Queue.new
    results = []
    app = lambda do |env|
      next [200, {}, ["hello"]] unless env["PATH_INFO"] == "/left"

      gone = env["gyre.client_gone"]
      gone.client_gone.define_singleton_method(:resolve) do |value|
        fibers << Fiber.current
        gate.pop
        super(value)
      end
      fibers << nil
      results << gone.wait
      [200, {}, []]
    end
    serve(app) do |served|
      clients = Array.new(3) { connect(served).request("GET /left HTTP/1.1") }
      3.times { assert_nil fibers.pop }
      hold(served) { clients.each(&:reset) } # so that one turn has all of them
      assert_equal 3, Array.new(3) { fibers.pop }.uniq.size
      assert_equal "hello", get(served).body
      assert_empty results
      3.times { gate << true }
      eventually(what: "the ends of the waits") { results == [true, true, true] }
      eventually { served.stats[:running].zero? }
    end
  end

  # It could wait, and so stop the loop in the middle of its own work.
  def test_no_code_of_the_program_makes_what_cancels_a_request
    made = []
    code = Module.new do
      define_method(:initialize) do |*arguments|
        made << arguments.first
        super(*arguments)
      end
    end
    [Gyre::Stop, Gyre::HTTP::RequestTimeout].each { |cancellation| cancellation.prepend(code) }
    waiting, cancelled = Array.new(2) { Thread::Queue.new }
    app = lambda do |_env|
      waiting << true
      Thread::Queue.new.pop
    rescue Gyre::Stop, Gyre::HTTP::RequestTimeout => error
      cancelled << [error.class, error.message, made.include?(error.message)]
      [200, {}, []]
    end
    serve(app, limits: { request_timeout_s: 0.02 }) { |served| get(served) }
    serve(app, cancel_when_client_gone: true) do |served|
      waiting.pop
      client = connect(served).request
      waiting.pop
      client.reset
      eventually { cancelled.size == 2 }
      served.errors.clear
    end
    assert_equal [Gyre::HTTP::RequestTimeout, "the request took longer than 0.02 s", false], cancelled.pop
    assert_equal [Gyre::Stop, "the client has left", false], cancelled.pop
  end

  def test_a_departure_is_told_once_and_not_denied_by_the_end_of_its_request
    told = Thread::Queue.new
    app = lambda do |env|
      env["gyre.client_gone"].client_gone.define_singleton_method(:resolve) { |value| told << value && super(value) }
      told << :waiting
      env["rack.input"].read
      [200, {}, []]
    rescue IOError, SystemCallError
      [200, {}, []]
    end
    serve(app) do |served|
      client = connect(served).request("POST / HTTP/1.1", "a", content_length: 2)
      assert_equal :waiting, told.pop
      client.reset
      assert told.pop
      eventually { served.stats[:running].zero? }
      assert_empty told
    end
  end

  # As at the kernel's limit of memory maps: there is no fiber to tell it in.
  def test_a_departure_is_told_without_a_fiber_where_none_can_begin
    pool = Gyre::Scheduler.const_get(:PooledFiber)
    gate = Thread::Queue.new
    told = Thread::Queue.new
    failures = Thread::Queue.new
    waiting = Thread::Queue.new
    app = lambda do |env|
      next [200, {}, ["hello"]] if env["PATH_INFO"] == "/other"

      pool.define_singleton_method(:new) { |*| failures << true && raise(FiberError, "can't alloc machine stack") }
      begin
        loop { Fiber.scheduler.spawn { gate.pop } } # in those that are idle
      rescue FiberError
        failures.clear
      end
      waiting << env["gyre.client_gone"].client_gone
      told << env["gyre.client_gone"].wait
      [200, {}, []]
    end
    serve(app) do |served|
      client = connect(served).request
      waiting.pop
      client.reset
      failures.pop
      assert told.pop
      pool.singleton_class.remove_method(:new)
      gate.close
      eventually { served.stats[:running].zero? }
      assert_equal "hello", get(served, "GET /other HTTP/1.1").body
    ensure
      gate.close
      pool.singleton_class.remove_method(:new) if pool.singleton_methods(false).include?(:new)
    end
  end

  def test_a_wait_for_the_departure_ends_with_the_request
    results = []
    app = lambda do |env|
      gone = env["gyre.client_gone"]
      Fiber.schedule { results << gone.wait }
      [200, {}, [gone.gone?.to_s]]
    end
    serve(app) do |served|
      client = connect(served)
      2.times { assert_equal "false", client.get.body }
      eventually { results == [false, false] }
    end
  end

  def test_a_client_that_resets_cancels_its_request_where_that_is_set
    notes = []
    app = lambda do |env|
      next [200, {}, ["hello"]] if env["PATH_INFO"] == "/other"

      notes << :waiting
      sleep
    rescue Gyre::Stop => error
      notes << error.message
      raise
    end
    serve(app, cancel_when_client_gone: true, log_accesses: true) do |served|
      other = connect(served)
      assert_equal 200, other.get("GET /other HTTP/1.1").status
      client = connect(served).request
      eventually { notes.any? }
      client.reset
      eventually(what: "the end of the request") { notes == [:waiting, "the client has left"] }
      eventually { served.stats[:connections] == 1 }
      eventually { served.accesses.map { |access| access[1] } == [200, 499] }
      assert_equal 200, other.get("GET /other HTTP/1.1").status
    end
  end

  def test_a_client_that_left_by_its_end_cancels_nothing
    return if tls? # its end is the connection's

    gate = Thread::Queue.new
    served_whole = false
    app = lambda do |_env|
      gate.pop
      served_whole = true
      [200, {}, []]
    end
    serve(app, cancel_when_client_gone: true) do |served|
      client = connect(served).request
      client.socket.shutdown(:WR)
      hold(served) { nil }
      gate << true
      assert_equal 200, client.response.status
      assert served_whole
    end
  end

  # Pipelined requests, chunks, a connection on which nothing else is sent.
  module HTTP1
    def test_a_response_that_has_begun_is_cut_when_its_time_is_over
      body = Enumerator.new { |parts| parts << "begun" && sleep }
      serve(->(_env) { [200, {}, body] }, limits: { request_timeout_s: 0.02 }) do |served|
        client = connect(served).request
        assert_match(/5\r\nbegun\r\n\z/, client.rest)
        expect_errors(served, /took longer/)
      end
    end

    def test_the_time_does_not_count_for_streams_without_an_end_and_for_what_comes_after_the_response
      gate = Thread::Queue.new
      app = lambda do |env|
        case env["PATH_INFO"]
        when "/events" then [200, { "content-type" => "text/event-stream" }, ->(stream) { gate.pop && (stream << "x").close }]
        when "/hijack"
          io = env["rack.hijack"].call
          gate.pop && io.write("x") && io.close
          [200, {}, []]
        else
          env["rack.response_finished"] << ->(*) { sleep(0.35) }
          [200, {}, ["x"]]
        end
      end
      serve(app, limits: { request_timeout_s: 0.3 }) do |served|
        events = connect(served).request("GET /events HTTP/1.1")
        hijacked = connect(served).request("GET /hijack HTTP/1.1")
        client = connect(served)
        2.times { assert_equal 200, client.get.status } # longer than the limit
        2.times { gate << true }
        assert_match(/1\r\nx\r\n0\r\n\r\n\z/, events.take_through("0\r\n\r\n"))
        assert_equal "x", hijacked.rest
      end
    end

    def test_the_time_of_waiting_for_the_client_does_not_count
      app = ->(env) { [200, {}, [env["rack.input"].read]] }
      serve(app, limits: { request_timeout_s: 0.3 }) do |served|
        client = connect(served).request("POST / HTTP/1.1", "a", content_length: 2)
        refute client.socket.wait_readable(0.4)
        client.write("b")
        assert_equal "ab", client.response.body
      end
    end

    def test_a_client_that_resets_is_gone_also_after_pipelined_bytes
      serve(waiting_app(notes = []), **{}) do |served|
        client = connect(served).request.request("GET /pipelined HTTP/1.1")
        eventually { notes.any? }
        client.reset
        eventually(what: "the app's end") { notes == [:waiting, true, true] }
      end
    end
  end
end

GyreTest::HTTPContract.run(HTTPDeparturesContract, backends: GyreTest::Engines::NATIVE.first(1))
