# frozen_string_literal: true

# What the two HTTP/1 parsers say to the same bytes, as comparable Hashes: the Ruby one in this
# process, the C one through test/c/http1_parser_test.c. Used by the parser tests and by the
# differential fuzzer (fuzz/). It judges nothing.
#
# A verdict: "verdict" => complete, incomplete or refused; "at" => after how many bytes it stood;
# and what the parser gave.

require "oracle/http/chunked"
require "oracle/http/parser"
require "oracle/http/trailers"
require "tmpdir"
require_relative "../support/plain_answers"

module HTTPVerdicts
  # kind is "h" for a head, "b" for a chunked body with trailers; limits is [request line bytes,
  # header bytes, header count], for a body of its trailer section.
  Input = Struct.new(:kind, :bytes, :limits)
  USUAL_LIMITS = [8192, 65_536, 128].freeze

  # The Ruby parser's side.
  module Portable
    # In the order of enum gyre_http1_target and of enum gyre_http1_method.
    FORMS = %i[origin absolute authority asterisk].freeze
    METHODS = [nil, "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"].freeze
    # In the order of enum gyre_http1_field_flag.
    NAMES = [nil, "host", "connection", "content-length", "transfer-encoding", "expect", "upgrade"].freeze
    # Of longer input only some splits are tried.
    EVERY_SPLIT_BYTES = 300

    class << self
      # Returns the verdict when the bytes come one by one, "inconsistent" when another way of
      # arriving gives another.
      def verdict(input, splits: true)
        verdict = run(input, first: 0, step: 1)
        ways = [input.bytes.bytesize]
        ways += split_points(input.bytes.bytesize) if splits
        ways.each do |first|
          other = run(input, first: first, step: input.bytes.bytesize + 1)
          expected = verdict.key?("at") ? verdict.merge("at" => first >= verdict["at"] ? first : input.bytes.bytesize) : verdict
          return { "verdict" => "inconsistent", "first" => first, "bytes" => verdict, "other" => other } if other != expected
        end
        { "at" => 0 }.merge(verdict)
      end

      private

      def split_points(length)
        (0..length).step(length <= EVERY_SPLIT_BYTES ? 1 : length / 20).to_a
      end

      def run(input, first:, step:)
        limits = Gyre::HTTP::Limits.new(request_line_bytes_limit: input.limits[0], header_bytes_limit: input.limits[1],
                                         trailer_bytes_limit: input.limits[1], header_count_limit: input.limits[2])
        input.kind == "h" ? run_head(input.bytes, limits, first, step) : run_body(input.bytes, limits, first, step)
      end

      # Yields the bytes that have come, always in the same String, until a block's value is true or
      # all have.
      def arriving(bytes, first, step)
        come = bytes.byteslice(0, first)
        loop do
          decided = yield come
          return decided.merge("at" => come.bytesize) if decided
          return { "verdict" => "incomplete" } if come.bytesize == bytes.bytesize

          come << bytes.byteslice(come.bytesize, step)
        end
      end

      def run_head(bytes, limits, first, step)
        parser = HTTPOracle::Parser.new(limits)
        arriving(bytes, first, step) do |come|
          result = parser.parse(come)
          next refusal(parser) if result.negative?

          head(parser, result) if result.positive?
        end
      end

      def run_body(bytes, limits, first, step)
        chunked = HTTPOracle::Chunked.new
        trailers = nil
        data = String.new(encoding: Encoding::BINARY)
        position = 0
        arriving(bytes, first, step) do |come|
          unless trailers
            piece = come.byteslice(position, come.bytesize)
            inside = 0
            while (result = chunked.step(piece, inside)) == :data
              data << piece.byteslice(chunked.data_offset, chunked.data_length)
              inside = chunked.position
            end
            next refusal(chunked).merge("data" => data) if result == :refused

            position += chunked.position
            next if result == :more

            trailers = HTTPOracle::Trailers.new(limits)
          end
          result = trailers.parse(come.byteslice(position, come.bytesize))
          next refusal(trailers).merge("data" => data) if result.negative?

          complete(position + result, trailers).merge("data" => data) if result.positive?
        end.then { |verdict| { "data" => data }.merge(verdict) }
      end

      def refusal(parser)
        { "verdict" => "refused", "status" => parser.status, "reason" => parser.reason }
      end

      def complete(length, parser)
        { "verdict" => "complete", "length" => length, "fields" => parser.fields.map { |name, value| [name, value,
          flags(name)] } }
      end

      def head(parser, length)
        complete(length, parser).merge(
          "minor" => parser.minor_version, "form" => FORMS.index(parser.target_form), "method" => parser.method,
          "method_number" => METHODS.index(parser.method) || 0, "target" => parser.target, "path" => parser.path,
          "authority" => parser.authority.to_s, "host" => parser.host.to_s, "port" => parser.port.to_s,
          "content_length" => parser.content_length || -1, "flags" => head_flags(parser)
        ).merge(parser.query ? { "query" => parser.query } : {})
      end

      # enum gyre_http1_flag
      def head_flags(parser)
        [parser.keep_alive?, parser.chunked?, !parser.content_length.nil?, parser.expect_continue?, parser.upgrade?]
          .each_with_index.sum { |set, bit| set ? 1 << bit : 0 }
      end

      # enum gyre_http1_field_flag
      def flags(name)
        (NAMES.index(name.downcase) || 0) | (name.include?("_") ? 0x100 : 0)
      end
    end
  end

  # The C parser's side: a program that is compiled for the occasion and judges inputs.
  class Native < GyreTest::PlainAnswers
    PROGRAM = "http1_parser_test"

    private

    def frame(input)
      [input.kind, *input.limits, input.bytes.bytesize].pack("aVVVV") << input.bytes
    end

    def read(line)
      line.split(/ (?=[a-z_]+=)/).to_h do |word|
        key, value = word.chomp.split("=", 2)
        [key, convert(key, value)]
      end
    end

    def convert(key, value)
      case key
      when "verdict", "way", "other" then value
      when "at", "length", "minor", "form", "status", "content_length", "method_number", "decided", "expected" then value.to_i
      when "flags" then value.hex
      when "fields" then value.split(",").map { |field| read_field(field) }
      else [value].pack("H*")
      end
    end

    def read_field(field)
      name, value, flags = field.split(":")
      [[name].pack("H*"), [value].pack("H*"), flags.to_i(16)]
    end
  end
end
