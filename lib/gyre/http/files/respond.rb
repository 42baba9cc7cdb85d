# frozen_string_literal: true

# Makes responses from files: preconditions (RFC 9110, section 13) and ranges (section 14), for
# Static and Sendfile. Opens and sends nothing.

require "securerandom"
require "time"
require "gyre/http/files/body"

module Gyre
  module HTTP
    module Files
      module Respond
        # Beyond it, or if ranges overlap, the whole file is sent (CVE-2011-3192, CVE-2024-26141).
        RANGES_LIMIT = 16
        # The longest Range field that is parsed.
        RANGE_BYTES_LIMIT = 1024
        CONDITIONS = %w[HTTP_IF_MATCH HTTP_IF_UNMODIFIED_SINCE HTTP_IF_NONE_MATCH HTTP_IF_MODIFIED_SINCE].freeze

        module_function

        # etag and last-modified in `headers` decide conditions. `content`: the file's bytes;
        # otherwise the block opens the file.
        def call(env, headers, size, content = nil)
          return [200, headers, [content]] if content && usual?(env)

          status = precondition(env, headers)
          return [status, status == 304 ? kept_of_304(headers) : refused(headers), []] if status

          ranges = env["HTTP_RANGE"] && env["REQUEST_METHOD"] == "GET" ? ranges(env, headers, size) : nil
          return unsatisfiable(headers, size) if ranges == []

          status = 200
          parts = [Body::Part.new(0, size)]
          if ranges
            status = 206
            parts = ranges.one? ? single(headers, ranges.first, size) : multipart(headers, ranges, size)
          end
          length = parts.sum { |part| part.is_a?(String) ? part.bytesize : part.length }
          headers["content-length"] = length.to_s
          return [status, headers, []] if env["REQUEST_METHOD"] == "HEAD"
          return [status, headers, in_memory(content, parts)] if content

          [status, headers, Body.new(yield, parts)]
        end

        # True for most requests.
        def usual?(env) = env["REQUEST_METHOD"] == "GET" && !env.key?("HTTP_RANGE") && CONDITIONS.none? { |name| env.key?(name) }

        # Returns an empty Array if no range fits the file; nil to ignore the field.
        def parse(header, size)
          return if header.bytesize > RANGE_BYTES_LIMIT || !header.match?(/\Abytes=/i)

          specs = header[6..].split(",").map(&:strip)
          return if specs.empty? || specs.size > RANGES_LIMIT

          ranges = []
          specs.each do |spec|
            match = /\A(\d{0,18})-(\d{0,18})\z/.match(spec) or return nil
            first, last = match.captures
            return nil if first.empty? && last.empty?

            if first.empty?
              length = [last.to_i, size].min
              ranges << ((size - length)..(size - 1)) if length.positive?
            else
              return nil if !last.empty? && last.to_i < first.to_i

              ranges << (first.to_i..(last.empty? ? size - 1 : [last.to_i, size - 1].min)) if first.to_i < size
            end
          end
          ranges
        end

        # In the order of RFC 9110, section 13.2.2. Costs four look-ups without conditions.
        def precondition(env, headers)
          return if CONDITIONS.none? { |name| env.key?(name) }

          if (match = env["HTTP_IF_MATCH"])
            return 412 unless match.strip == "*" || (tags(match).include?(headers["etag"]) && !headers["etag"].start_with?("W/"))
          elsif (since = date(env["HTTP_IF_UNMODIFIED_SINCE"])) && (modified = date(headers["last-modified"]))
            return 412 if modified > since
          end
          if (none = env["HTTP_IF_NONE_MATCH"])
            tag = headers["etag"]&.delete_prefix("W/")
            return 304 if none.strip == "*" || (tag && tags(none).any? { |other| other.delete_prefix("W/") == tag })
          elsif (since = date(env["HTTP_IF_MODIFIED_SINCE"])) && (modified = date(headers["last-modified"]))
            return 304 if modified <= since
          end
          nil
        end

        def tags(header) = header.scan(%r{(?:W/)?"[^"]*"})

        # A malformed date is not a condition.
        def date(text)
          text && Time.httpdate(text)
        rescue ArgumentError
          nil
        end

        # Headers that a 304 keeps (RFC 9110, section 15.4.5).
        def kept_of_304(headers) = headers.slice("etag", "last-modified", "cache-control", "content-location", "date", "expires", "vary")

        def refused(headers) = headers.slice("etag", "last-modified", "vary").merge!("content-length" => "0")

        def unsatisfiable(headers, size)
          [416, headers.slice("etag", "last-modified", "vary", "accept-ranges")
                       .merge!("content-range" => "bytes */#{size}", "content-length" => "0"), []]
        end

        # Returns nil for the whole file.
        def ranges(env, headers, size)
          return unless if_range(env["HTTP_IF_RANGE"], headers)

          found = parse(env["HTTP_RANGE"], size)
          return found if found.nil? || found.size < 2

          sorted = found.sort_by(&:begin)
          sorted.each_cons(2).any? { |one, two| two.begin <= one.end } ? nil : found
        end

        # Only a strong validator guarantees equal bytes (section 13.1.5). A date must be a second
        # old (section 8.8.2.2).
        def if_range(condition, headers)
          return true if condition.nil?
          return condition.strip == headers["etag"] && !condition.lstrip.start_with?("W/") if condition.include?('"')

          condition.strip == headers["last-modified"] && Time.now - date(condition) >= 1
        end

        def single(headers, range, size)
          headers["content-range"] = "bytes #{range.begin}-#{range.end}/#{size}"
          [Body::Part.new(range.begin, range.size)]
        end

        # A multipart response (section 14.6).
        def multipart(headers, ranges, size)
          boundary = SecureRandom.hex(16)
          type = headers["content-type"]
          headers["content-type"] = "multipart/byteranges; boundary=#{boundary}"
          parts = ranges.flat_map do |range|
            head = "\r\n--#{boundary}\r\n#{"content-type: #{type}\r\n" if type}content-range: bytes #{range.begin}-#{range.end}/#{size}\r\n\r\n"
            [head, Body::Part.new(range.begin, range.size)]
          end
          parts << "\r\n--#{boundary}--\r\n"
        end

        def in_memory(content, parts) = parts.map { |part| part.is_a?(String) ? part : part_of(content, part) }

        def part_of(content, part) = part.length == content.bytesize ? content : content.byteslice(part.offset, part.length)
      end
    end
  end
end
