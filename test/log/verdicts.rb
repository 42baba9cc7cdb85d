# frozen_string_literal: true

# What the implementations of the log's ingest say to the same bytes, as comparable Hashes: that of
# the extension, the oracle, and the C files without Ruby through test/c/log_ingest_test.c. Used by
# the contract and by the differential fuzzer (fuzz/). It judges nothing.

require "gyre/log"
require "gyre/log/ingest"
require "tmpdir"
require_relative "../oracle/log/ingest"
require_relative "../support/plain_answers"

module LogVerdicts
  # kind is :analogger, :records or :syslog; framing is syslog's.
  Input = Struct.new(:kind, :framing, :limit, :bytes)
  FRAMINGS = %i[auto octet_counting lines zero].freeze
  TIME_NS = 1_795_288_800_123_456_789
  CLIENT = "0123456789abcdef" * 2
  # As in test/c/log_exercise.c.
  SINKS = {
    "text" => {}, "json" => { format: :json }, "redis" => { format: :redis, key: "k" }, "culled" => { cull: true, origin: true },
    "raw" => { raw: true, limit: 300, origin: true }, "tap" => { format: :json, cull: true }
  }.freeze

  ORIGINS = { records: { host: "w\"b|\n\x9b", pid: 4711 }, analogger: { host: "w\"b|\n\x9b" } }.freeze

  class << self
    def verdict(ingest_class, input, first: nil, step: 1)
      ingest = ingest_class.new(services_limit: 2)
      sinks = sinks(ingest)
      session = ingest.session(CLIENT, { sinks["json"] => 2 }) if input.kind == :records
      decoder = ingest.decoder(input.kind, session: session, limit: input.limit, framing: input.framing, **ORIGINS.fetch(input.kind, {}))
      verdict = { "wrong" => feed(decoder, input.bytes, first || input.bytes.bytesize, step), "rest" => decoder.bytesize }
      verdict.update("end" => decoder.finish(TIME_NS).to_s, "messages" => [decoder.messages, ingest.messages],
        "filtered" => ingest.filtered, "received" => session ? session.received : 0,
        "services" => ingest.services.map { |name, count| [name.b, count] }.sort)
      sinks.each { |name, sink| verdict[name] = taken(sink) }
      verdict.merge("left" => ingest.bytesize)
    end

    private

    def sinks(ingest)
      sinks = SINKS.transform_values { |options| ingest.sink(**options) }
      ingest.route(nil, nil, sinks.values.first(5))
      ingest.route("quiet", ["warn"], [sinks["culled"], sinks["raw"]])
      ingest.tap(sinks["tap"], "web")
      sinks
    end

    def feed(decoder, bytes, first, step)
      position = 0
      length = first
      loop do
        wrong = decoder.feed(bytes.byteslice(position, length), TIME_NS)
        return wrong if wrong

        position += length
        return "" if position >= bytes.bytesize

        length = step
      end
    end

    def taken(sink)
      bytes, clients = sink.take || ["".b, {}]
      [sink.dropped, clients.values, bytes]
    end
  end

  # The C side: a program that is compiled for the occasion and answers inputs.
  class Plain < GyreTest::PlainAnswers
    PROGRAM = "log_ingest_test"

    private

    def frame(input)
      kind = { analogger: "f", records: "r", syslog: "s" }.fetch(input.kind)
      [kind, FRAMINGS.index(input.framing), input.limit, input.bytes.bytesize].pack("aCVV") << input.bytes
    end

    def read(line)
      line.chomp.split(/ (?=[a-z]+=)/).to_h do |word|
        key, value = word.split("=", 2)
        [key, convert(key, value)]
      end
    end

    def convert(key, value)
      case key
      when "rest", "filtered", "received", "left" then value.to_i
      when "messages" then value.split(":").map(&:to_i)
      when "wrong", "end" then [value].pack("H*").force_encoding("UTF-8")
      when "services" then value.split(",").map { |word| word.split(":", 2).then { |name, count| [[name].pack("H*"), count.to_i] } }.sort
      when *SINKS.keys
        dropped, last, bytes = value.split(":", 3)
        [dropped.to_i, last.empty? ? [] : [last.to_i], [bytes].pack("H*")]
      else value
      end
    end
  end
end
