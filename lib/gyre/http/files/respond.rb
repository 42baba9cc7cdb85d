# frozen_string_literal: true

# Makes responses from files: preconditions (RFC 9110, section 13) and ranges (section 14), for
# Static and Sendfile. Opens and sends nothing.

require "time"
require "gyre/http/files/body"

module Gyre
  module HTTP
    module Files
      module Respond
        # One range of bytes. A request for several gets the whole file (RFC 9110, section 14.2).
        RANGE = /\Abytes=[ \t]*(\d{0,18})-(\d{0,18})[ \t]*\z/i.freeze
        CONDITIONS = %w[HTTP_IF_MATCH HTTP_IF_UNMODIFIED_SINCE HTTP_IF_NONE_MATCH HTTP_IF_MODIFIED_SINCE].freeze

        module_function

        # Conditions are compared with etag and last-modified in `headers`. `content` has the file's
        # bytes; if it is nil, the block opens the file.
        def call(env, headers, size, content = nil)
          return [200, headers, [content]] if content && usual?(env)

          status = precondition(env, headers)
          return [status, status == 304 ? kept_of_304(headers) : refused(headers), []] if status

          range = range(env, headers, size)
          return unsatisfiable(headers, size) if range&.size&.zero?

          headers["content-range"] = "bytes #{range.begin}-#{range.end}/#{size}" if range
          status = range ? 206 : 200
          range ||= (0...size)
          headers["content-length"] = range.size.to_s
          return [status, headers, []] if env["REQUEST_METHOD"] == "HEAD"
          return [status, headers, [range.size == size ? content : content.byteslice(range)]] if content

          [status, headers, Body.new(yield, range.begin, range.size)]
        end

        # True if the request has no range and no condition, like most requests.
        def usual?(env) = env["REQUEST_METHOD"] == "GET" && !env.key?("HTTP_RANGE") && CONDITIONS.none? { |name| env.key?(name) }

        # Returns nil for the whole file. Returns an empty Range if the range has no byte of the
        # file.
        def range(env, headers, size)
          match = RANGE.match(env["HTTP_RANGE"].to_s)
          return unless match && env["REQUEST_METHOD"] == "GET" && if_range(env["HTTP_IF_RANGE"], headers)

          first, last = match.captures.map { |text| text.to_i unless text.empty? }
          return last && ([size - last, 0].max..(size - 1)) unless first

          first..[last || size, size - 1].min unless last && last < first
        end

        # Checks conditions in the order of RFC 9110, section 13.2.2. Returns 412, 304 or nil.
        def precondition(env, headers)
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
        def kept_of_304(headers) = headers.slice("etag", "last-modified", "cache-control", "content-location", "date", "expires", "vary", "age")

        def refused(headers) = headers.slice("etag", "last-modified", "vary").merge!("content-length" => "0")

        def unsatisfiable(headers, size)
          [416, headers.slice("etag", "last-modified", "vary", "accept-ranges")
                       .merge!("content-range" => "bytes */#{size}", "content-length" => "0"), []]
        end

        # True if the range may be sent. Only a strong validator guarantees equal bytes (section
        # 13.1.5). A date is strong if it is at least a second old (section 8.8.2.2).
        def if_range(condition, headers)
          return true if condition.nil?
          return condition.strip == headers["etag"] && !condition.lstrip.start_with?("W/") if condition.include?('"')

          condition.strip == headers["last-modified"] && Time.now - date(condition) >= 1
        end
      end
    end
  end
end
