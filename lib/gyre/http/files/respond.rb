# frozen_string_literal: true

# Makes responses from files: preconditions (RFC 9110, section 13) and ranges (section 14), for
# Static and Sendfile. Opens and sends nothing.

require "time"
require "gyre/http/files/body"

module Gyre
  module HTTP
    module Files
      module Respond
        # A longer field, or several ranges, get the whole file (CVE-2011-3192, CVE-2024-26141).
        RANGE = /\Abytes=\s*(\d{0,18})-(\d{0,18})\s*\z/i.freeze
        CONDITIONS = %w[HTTP_IF_MATCH HTTP_IF_UNMODIFIED_SINCE HTTP_IF_NONE_MATCH HTTP_IF_MODIFIED_SINCE].freeze

        module_function

        # etag and last-modified in `headers` decide conditions. `content`: the file's bytes;
        # otherwise the block opens the file.
        def call(env, headers, size, content = nil)
          return [200, headers, [content]] if content && usual?(env)

          status = precondition(env, headers)
          return [status, status == 304 ? kept_of_304(headers) : refused(headers), []] if status

          range = env["HTTP_RANGE"] && env["REQUEST_METHOD"] == "GET" ? range(env, headers, size) : nil
          return unsatisfiable(headers, size) if range == :none

          headers["content-range"] = "bytes #{range.begin}-#{range.end}/#{size}" if range
          status, offset, length = range ? [206, range.begin, range.size] : [200, 0, size]
          headers["content-length"] = length.to_s
          return [status, headers, []] if env["REQUEST_METHOD"] == "HEAD"
          return [status, headers, [range ? content.byteslice(offset, length) : content]] if content

          [status, headers, Body.new(yield, offset, length)]
        end

        # True for most requests.
        def usual?(env) = env["REQUEST_METHOD"] == "GET" && !env.key?("HTTP_RANGE") && CONDITIONS.none? { |name| env.key?(name) }

        # Returns :none if the range is outside of the file; nil to ignore the field.
        def parse(header, size)
          first, last = RANGE.match(header)&.captures
          return if first.nil? || (first.empty? && last.empty?)

          if first.empty?
            length = [last.to_i, size].min
            return length.positive? ? (size - length)..(size - 1) : :none
          end
          return if !last.empty? && last.to_i < first.to_i

          first.to_i < size ? first.to_i..(last.empty? ? size - 1 : [last.to_i, size - 1].min) : :none
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
        def range(env, headers, size) = (parse(env["HTTP_RANGE"], size) if if_range(env["HTTP_IF_RANGE"], headers))

        # Only a strong validator guarantees equal bytes (section 13.1.5). A date must be a second
        # old (section 8.8.2.2).
        def if_range(condition, headers)
          return true if condition.nil?
          return condition.strip == headers["etag"] && !condition.lstrip.start_with?("W/") if condition.include?('"')

          condition.strip == headers["last-modified"] && Time.now - date(condition) >= 1
        end
      end
    end
  end
end
