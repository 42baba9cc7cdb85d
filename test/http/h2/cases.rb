# frozen_string_literal: true

# What an HTTP/2 server has to do, as a table: what a client sends and what it must see. The first
# 147 cases are those of h2spec 2.6.0, under its sections (they are RFC 7540's, RFC 9113 has kept
# them, and RFC 7541's), in frames of our own. Data only: conformance_test.rb runs it against Gyre,
# peers_test.rb against other servers, so that a wrong case shows. The server answers each request
# for / with a body of at least five bytes.

require "support/h2_frames"

module H2Cases
  # steps: bytes to be sent, or an Array [what is waited for before the rest is sent, stream], or a
  # Proc that is given the client and returns bytes.
  Case = Struct.new(:section, :name, :steps, :expected)
  # What must be seen.
  # kind: :response (HEADERS on the stream), :data (a DATA frame of that length), :pong (an answer
  # to the PING with that content), :pong_or_close, :settings (as first frame), :settings_ack,
  # :connection_error (GOAWAY with one of the codes, and the end), :stream_error (RST_STREAM or
  # GOAWAY with one of the codes), :pong_or_stream_error, :reset (RST_STREAM of the stream),
  # :next_data (a second DATA frame), :close (the end).
  Expected = Struct.new(:kind, :stream, :codes, :content)

  @tables = []

  class << self
    # A part of the table.
    def define(&block)
      @tables << block
    end

    def all(scheme = "http")
      table = Table.new(scheme)
      @tables.each { |block| table.instance_exec(&block) }
      table.cases
    end
  end

  # The words in which the cases are written, beside those of GyreTest::H2.
  class Table
    include GyreTest::H2

    attr_reader :cases

    # A field with more than a quarter of a frame's bytes.
    LONG = "x" * 4000
    PING = "h2 cases"

    def initialize(scheme)
      @scheme = scheme
      @cases = []
    end

    def section(name)
      @section = name
      yield
    end

    def expect(expected, name, *steps)
      @cases << Case.new(@section, name, steps, expected)
    end

    # --- what is sent ---

    # Returns the fields of a request.
    def fields(method = "GET", more = [])
      request(method, "/", scheme: @scheme) + more
    end

    # HEADERS that begin and, usually, end a request.
    def get(stream = 1, more = [], **options)
      headers(stream, fields("GET", more), **options)
    end

    # HEADERS of a request whose body follows.
    def post(stream = 1, more = [], **options)
      headers(stream, fields("POST", more), end_stream: false, **options)
    end

    # HEADERS with a block whose end is given as bytes.
    def get_with(bytes, before: "", stream: 1)
      headers(stream, before + GyreTest::HPACK.encode(fields) + bytes)
    end

    # A PING whose answer is {#pong}.
    def last_ping = ping(PING)

    # Any frame between others.
    def unknown_frame
      frame(0x16, "\0" * 8)
    end

    def more_fields(count = 1)
      Array.new(count) { |number| ["x-more-#{number}", "x" * 1000] }
    end

    # --- what is waited for ---

    def settings_acked(times = 2) = [:settings_ack, times]
    def ended(stream = 1) = [:end, stream]
    def data_came(stream = 1) = [:data, stream]

    # --- what is expected ---

    def response(stream = 1) = Expected.new(:response, stream)
    def one_byte = Expected.new(:data, 1, nil, 1)
    def some_data = Expected.new(:data, 1)
    def pong(content = PING) = Expected.new(:pong, 0, nil, content)
    def pong_or_close(content = PING) = Expected.new(:pong_or_close, 0, nil, content)
    def connection_error(*codes) = Expected.new(:connection_error, 0, codes)
    def stream_error(*codes) = Expected.new(:stream_error, nil, codes)
  end

  # One case against one server.
  class Run
    def initialize(client, one, within_s:)
      @client = client
      @case = one
      @within_s = within_s
      client.obliging = false
    end

    def failure
      greet unless @case.expected.kind == :settings || @case.steps.first == :raw
      @case.steps.each { |step| take(step) }
      seen? ? nil : "#{@case.section}, #{@case.name}: expected #{@case.expected.to_a.compact.join(" ")}; #{@client}"
    rescue Minitest::Assertion => error
      "#{@case.section}, #{@case.name}: expected #{@case.expected.to_a.compact.join(" ")}; #{error.message}"
    end

    private

    def greet
      @client.write(GyreTest::H2::PREFACE, GyreTest::H2.settings)
      await { @client.frames.any? { |frame| frame.type == :settings && frame.ack? } && !@client.settings.empty? }
    end

    def take(step)
      case step
      when String then @client.write(step)
      when Proc then @client.write(step.call(@client))
      when Array then await_step(*step)
      end
    end

    # The client's own first SETTINGS are acknowledged, too.
    def await_step(kind, stream)
      case kind
      when :settings_ack then await { frames(:settings).count(&:ack?) >= stream }
      when :end then await { @client.stream(stream).over? }
      when :data then await { frames(:data).any? { |frame| frame.stream == stream } }
      end
    end

    def await(&block)
      @client.wait("what the case waits for", within_s: @within_s, &block)
    end

    def frames(type)
      @client.frames.select { |frame| frame.type == type }
    end

    # Reads until what is expected has come, or the end.
    def seen?
      return ends? if @case.expected.kind == :connection_error

      until (seen = come?)
        return closes? unless @client.next_frame(within_s: @within_s)
      end
      seen
    end

    def come?
      expected = @case.expected
      case expected.kind
      when :settings then @client.frames.first&.type == :settings && !@client.frames.first.ack?
      when :settings_ack then frames(:settings).count(&:ack?) > 1
      when :response then frames(:headers).any? { |frame| frame.stream == expected.stream }
      when :data then frames(:data).first&.then { |frame| expected.content.nil? || frame.length == expected.content }
      when :pong, :pong_or_close then pong?
      when :next_data then frames(:data)[1]&.then { |frame| frame.length == expected.content }
      when :reset then frames(:rst_stream).any? { |frame| frame.stream == expected.stream && expected.codes.include?(frame.error) }
      when :stream_error then error?
      when :pong_or_stream_error then pong? || error?
      end
    end

    def pong?
      frames(:ping).any? { |frame| frame.ack? && frame.payload == @case.expected.content }
    end

    def error?
      (frames(:rst_stream) + frames(:goaway)).any? { |frame| @case.expected.codes.include?(frame.error) }
    end

    def closes?
      %i[pong_or_close close].include?(@case.expected.kind)
    end

    # A connection error: GOAWAY with the code, and then the end.
    def ends?
      nil while @client.next_frame(within_s: @within_s)
      frames(:goaway).any? { |frame| @case.expected.codes.include?(frame.error) }
    end
  end
end

require_relative "cases/generic"
require_relative "cases/frames"
require_relative "cases/streams"
require_relative "cases/definitions"
require_relative "cases/messages"
require_relative "cases/hpack"
