# frozen_string_literal: true

# The cases of the HTTP/1 parsers: what arrives, and what both parsers must say to it. Data only;
# the tests run each case whole, split at each byte and byte by byte, and the fuzzers start from
# them (bytes that are not complete are cases too). Sources: RFC 9110 and 9112, the advisories named
# beside the cases, and what other strict parsers reject.

require_relative "verdicts"

module HTTPCases
  # expected: the part of the verdict (verdicts.rb) that the case is about.
  Case = Struct.new(:name, :input, :expected)
  ALL = []

  class << self
    # A head that is accepted. The length is that of the bytes unless they go on.
    def accept(name, bytes, limits: {}, **expected)
      add("h", name, bytes, limits, "verdict" => "complete", "length" => bytes.bytesize,
        "at" => expected[:length] || bytes.bytesize, **text_keys(expected))
    end

    def refuse(status, reason, name, bytes, limits: {}, **expected)
      add("h", name, bytes, limits, "verdict" => "refused", "status" => status, "reason" => reason, **text_keys(expected))
    end

    def incomplete(name, bytes, limits: {})
      add("h", name, bytes, limits, "verdict" => "incomplete", "at" => 0)
    end

    # A chunked body that is accepted.
    def body(name, bytes, data:, limits: {}, **expected)
      add("b", name, bytes, limits, "verdict" => "complete", "length" => bytes.bytesize, "data" => data.b, **text_keys(expected))
    end

    def refuse_body(reason, name, bytes, status: 400, limits: {}, **expected)
      add("b", name, bytes, limits, "verdict" => "refused", "status" => status, "reason" => reason, **text_keys(expected))
    end

    def incomplete_body(name, bytes, data: "")
      add("b", name, bytes, {}, "verdict" => "incomplete", "at" => 0, "data" => data.b)
    end

    # A sound request with these header lines.
    def get(*lines, version: "1.1", host: "Host: a\r\n")
      "GET / HTTP/#{version}\r\n#{host}#{lines.map { |line| "#{line}\r\n" }.join}\r\n"
    end

    private

    def add(kind, name, bytes, limits, expected)
      usual = HTTPVerdicts::USUAL_LIMITS
      limits = [limits.fetch(:line, usual[0]), limits.fetch(:bytes, usual[1]), limits.fetch(:count, usual[2])]
      ALL << Case.new(name, HTTPVerdicts::Input.new(kind, bytes.b.freeze, limits), expected)
    end

    def text_keys(expected)
      expected.to_h do |key, value|
        value = value.map { |pair| pair.map(&:b) } if key == :fields
        [key.to_s, value.is_a?(String) ? value.b : value]
      end
    end
  end

  # What Parser's flags are as a number (enum gyre_http1_flag).
  KEEP = 1
  CHUNKED = 2
  LENGTH = 4
  EXPECT = 8
  UPGRADE = 16
end

require_relative "cases/request_lines"
require_relative "cases/hosts"
require_relative "cases/header_lines"
require_relative "cases/framing"
require_relative "cases/limits"
require_relative "cases/bodies"
