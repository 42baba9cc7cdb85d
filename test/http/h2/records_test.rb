# frozen_string_literal: true

# Over TLS a connection may hold bytes that the kernel does not report, for what a turn receives is
# bounded. The server's loop stands still until all of an upload has come, a little more than that.

require "test_helper"
require "support/engines"
require "http/h2/serving"

module H2Records
  include GyreTest::H2Serving

  TURN_BYTES = 8 * 65_536
  LIMITS = { stream_window_bytes_limit: 2 * TURN_BYTES, connection_window_bytes_limit: 2 * TURN_BYTES }
  def tls? = true

  def upload(served, client, bytes)
    stream = client.open("POST /")
    hold(served) { stream.write("x" * bytes, end_stream: true) }
    stream
  end

  # Its end lies in the memory of TLS alone.
  def test_an_upload_ends_that_is_a_little_longer_than_what_a_turn_receives
    app = ->(env) { [200, {}, [env["rack.input"].read.bytesize.to_s]] }
    serve(app, limits: LIMITS) do |served|
      client = connect(served).greet.synchronize
      [1, 5_000, 20_000, 50_000, 100_000].each do |more|
        assert_equal (TURN_BYTES + more).to_s, upload(served, client, TURN_BYTES + more).response.body
      end
    end
  end

  # The app has its first bytes when the turn that received them is over, and what is left is to be
  # received in the next one.
  def test_a_child_that_is_forked_between_two_turns_leaves_the_rest_to_its_parent
    app = lambda do |env|
      begun = env["rack.input"].read(1)
      child = fork { exit!(sleep(0.01) && 0) }
      rest = env["rack.input"].read
      [200, {}, ["#{(begun + rest).bytesize}, #{Process.wait2(child).last.exitstatus.inspect}"]]
    end
    serve(app, limits: LIMITS) do |served|
      stream = upload(served, connect(served).greet.synchronize, TURN_BYTES + 5_000)
      assert_equal "#{TURN_BYTES + 5_000}, 0", stream.response.body
    end
  end

  def test_a_connection_that_is_closed_between_two_turns_is_received_from_no_more
    served = client = nil
    received = Thread::Queue.new
    app = lambda do |env|
      bytes = env["rack.input"].read(1).bytesize
      served.server.close
      bytes += env["rack.input"].read.bytesize
    ensure
      received << bytes
    end
    serve(app, limits: LIMITS) do |serving|
      served = serving
      client = connect(served).greet.synchronize
      upload(served, client, TURN_BYTES + 5_000)
      assert_operator received.pop, :<, TURN_BYTES
      assert_nil client.failure
      served.errors.clear
    end
  end
end

GyreTest::Engines.test_case("H2RecordsTest", backends: GyreTest::H2Serving::BACKENDS) { include H2Records }
