# frozen_string_literal: true

# HTTP/2 frames (RFC 9113) as bytes, for tests that send any of them, sound or not. No test itself.

require_relative "hpack"

module GyreTest
  # Frames in and out. Each method that makes one returns its bytes; what it is given is not
  # checked.
  module H2
    PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    TYPES = %i[data headers priority rst_stream settings push_promise ping goaway window_update continuation].freeze
    ERRORS = %i[no_error protocol_error internal_error flow_control_error settings_timeout stream_closed frame_size_error
                refused_stream cancel compression_error connect_error enhance_your_calm inadequate_security
                http_1_1_required].freeze
    SETTINGS = { header_table_size: 1, enable_push: 2, max_concurrent_streams: 3, initial_window_size: 4, max_frame_size: 5,
                 max_header_list_size: 6, enable_connect_protocol: 8, no_rfc7540_priorities: 9 }.freeze
    END_STREAM = 0x1
    ACK = 0x1
    END_HEADERS = 0x4
    PADDED = 0x8
    PRIORITY = 0x20
    HEADER_BYTES = 9
    WINDOW = 65_535
    WINDOW_MOST = (1 << 31) - 1

    # One frame that was received.
    Frame = Struct.new(:type, :flags, :stream, :payload) do
      def ack? = flags.anybits?(ACK)
      def end_stream? = flags.anybits?(END_STREAM) && %i[data headers].include?(type)
      def end_headers? = flags.anybits?(END_HEADERS)
      def length = payload.bytesize

      # Returns the error code of RST_STREAM and GOAWAY.
      def error
        code = { rst_stream: payload, goaway: payload.byteslice(4, 4) }[type]&.unpack1("N")
        code && (ERRORS[code] || code)
      end

      # Returns the last stream of a GOAWAY.
      def last_stream = payload.unpack1("N") & WINDOW_MOST

      def content
        bytes = payload
        bytes = bytes.byteslice(1, bytes.bytesize - 1 - bytes.getbyte(0)) if flags.anybits?(PADDED)
        type == :headers && flags.anybits?(PRIORITY) ? bytes.byteslice(5..) : bytes
      end

      # Returns the parameters of SETTINGS.
      def settings
        payload.unpack("nN" * (length / 6)).each_slice(2).to_h { |id, value| [SETTINGS.key(id) || id, value] }
      end

      def to_s
        "#{type}#{"[#{stream}]" if stream.positive?}#{" #{error}" if error}#{" ack" if ack? && %i[settings ping].include?(type)}" \
          "#{" end" if end_stream?} #{length} bytes"
      end
    end

    module_function

    def frame(type, payload = "", stream: 0, flags: 0, length: payload.bytesize)
      [length >> 8, length & 255, TYPES.index(type) || type, flags, stream].pack("nCCCN") + payload.b
    end

    def headers(stream, fields, end_stream: true, end_headers: true, priority: nil, pad: nil)
      block = fields.is_a?(String) ? fields : HPACK.encode(fields)
      block = dependency(*priority) + block if priority
      padded = pad ? pad.chr.b + block + "\0" * pad : block
      flags = [end_stream && END_STREAM, end_headers && END_HEADERS, priority && PRIORITY, pad && PADDED].grep(Integer).sum
      frame(:headers, padded, stream: stream, flags: flags)
    end

    def continuation(stream, fields, end_headers: true)
      block = fields.is_a?(String) ? fields : HPACK.encode(fields)
      frame(:continuation, block, stream: stream, flags: end_headers ? END_HEADERS : 0)
    end

    def data(stream, bytes = "", end_stream: true, pad: nil)
      padded = pad ? pad.chr.b + bytes.b + "\0" * pad : bytes
      frame(:data, padded, stream: stream, flags: (end_stream ? END_STREAM : 0) | (pad ? PADDED : 0))
    end

    def priority(stream, depends_on = 0, exclusive: false, weight: 255)
      frame(:priority, dependency(depends_on, exclusive, weight), stream: stream)
    end

    def dependency(depends_on, exclusive, weight)
      [(exclusive ? 1 << 31 : 0) | depends_on, weight].pack("NC")
    end

    def rst_stream(stream, error = :cancel)
      frame(:rst_stream, [code(error)].pack("N"), stream: stream)
    end

    def settings(list = [], ack: false, **more)
      parameters = [*list, *more].map { |name, value| [SETTINGS[name] || name, value].pack("nN") }
      frame(:settings, parameters.join, flags: ack ? ACK : 0)
    end

    def push_promise(stream, promised, fields)
      frame(:push_promise, [promised].pack("N") + HPACK.encode(fields), stream: stream, flags: END_HEADERS)
    end

    def ping(opaque = "\0" * 8, ack: false)
      frame(:ping, opaque, flags: ack ? ACK : 0)
    end

    def goaway(last = 0, error = :no_error, debug = "")
      frame(:goaway, [last, code(error)].pack("NN") + debug)
    end

    def window_update(stream, increment)
      frame(:window_update, [increment].pack("N"), stream: stream)
    end

    def request(method = "GET", path = "/", scheme: "http", authority: "gyre.test", **fields)
      [[":method", method], [":scheme", scheme], [":path", path], [":authority", authority],
       *fields.map { |name, value| [name.to_s.tr("_", "-"), value.to_s] }]
    end

    def code(error)
      ERRORS.index(error) || error
    end
  end
end
