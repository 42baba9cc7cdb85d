# frozen_string_literal: true

# Over TLS a connection may hold bytes that the kernel does not report, for what a turn receives is
# bounded. The app itself sends the client's next record, so that all of them come in one turn.

require "test_helper"
require "support/engines"
require "http/h2/serving"
require "tmpdir"

GyreTest::Engines.test_case("H2RecordsTest", backends: GyreTest::H2Serving::BACKENDS) do
  include GyreTest::H2Serving

  h2 = GyreTest::H2
  receptions = 12 # more than a turn has
  frames = 6      # of the upload: more than one reception takes

  define_method(:tls?) { true }

  # Where the upload is what the turn receives last, its end lies in the memory of TLS alone.
  define_method(:test_an_upload_ends_whichever_reception_of_a_turn_brings_its_last_bytes) do
    client = nil
    records = []
    app = lambda do |env|
      next [200, {}, [env["rack.input"].read.bytesize.to_s]] if env["PATH_INFO"] == "/upload"

      client.write(records.shift)
      [200, {}, []]
    end
    Dir.mktmpdir do |folder|
      serve(app, unix: File.join(folder, "socket")) do |served|
        receptions.times do |before|
          client = connect(served).greet.synchronize
          ids = Array.new(before + 1) { |number| (2 * number) + 1 }
          body = Array.new(frames) { |number| h2.data(ids.last, "x" * 16_384, end_stream: number == frames - 1) }
          upload = h2.headers(ids.last, h2.request("POST", "/upload", scheme: "https"), end_stream: false) + body.join
          records = ids[...-1].map { |id| h2.headers(id, h2.request("GET", "/next", scheme: "https")) } << upload
          streams = ids.map { |id| client.stream(id) }
          client.write(records.shift)
          assert_equal (frames * 16_384).to_s, streams.map { |stream| stream.response.body }.last, "after #{before} receptions"
        end
      end
    end
  end
end
