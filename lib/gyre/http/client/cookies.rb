# frozen_string_literal: true

# The cookies of one client in memory (RFC 6265, without public suffixes: a Domain counts only if it
# has a dot). Client stores those of each response, and asks for those of each request.

require "time"

module Gyre
  module HTTP
    class Client
      class Cookies
        COUNT_LIMIT = 3000
        BYTES_LIMIT = 4096
        Cookie = Struct.new(:name, :value, :domain, :path, :host_only, :secure, :until)
        private_constant :COUNT_LIMIT, :BYTES_LIMIT, :Cookie

        def initialize
          @cookies = {} # [domain, path, name] => Cookie
          @lock = Thread::Mutex.new
        end

        # Returns nil without cookies for it.
        def header(origin, target)
          path = path_of(target)
          chosen = @lock.synchronize do
            @cookies.delete_if { |_, cookie| cookie.until && cookie.until <= Time.now }
            @cookies.values.select { |cookie| matches?(cookie, origin, path) }
          end
          chosen.sort_by { |cookie| -cookie.path.size }.map { |cookie| "#{cookie.name}=#{cookie.value}" }.join("; ") unless chosen.empty?
        end

        def store(origin, target, lines)
          lines.each do |line|
            cookie = parse(line, origin, path_of(target)) or next
            @lock.synchronize do
              key = [cookie.domain, cookie.path, cookie.name]
              @cookies.delete(key)
              @cookies[key] = cookie unless cookie.until && cookie.until <= Time.now
              @cookies.shift if @cookies.size > COUNT_LIMIT
            end
          end
        end

        private

        def path_of(target) = target[/\A[^?]*/]

        def matches?(cookie, origin, path)
          (cookie.host_only ? origin.host == cookie.domain : within?(origin.host, cookie.domain)) &&
            (!cookie.secure || origin.tls?) &&
            (path == cookie.path || path.start_with?(cookie.path.end_with?("/") ? cookie.path : "#{cookie.path}/"))
        end

        def within?(host, domain) = host == domain || (host.end_with?(".#{domain}") && !host.match?(/\A[\d.]+\z|:/))

        def parse(line, origin, path)
          pair, *attributes = line.split(";")
          name, equals, value = pair.to_s.partition("=").map(&:strip)
          return if name.empty? || equals.empty? || line.bytesize > BYTES_LIMIT

          given = attributes.to_h { |text| text.partition("=").values_at(0, 2).map(&:strip).then { |key, word| [key.downcase, word] } }
          domain = given["domain"].to_s.downcase.delete_prefix(".")
          return if given.key?("secure") && !origin.tls?
          return unless domain.empty? || (domain.include?(".") && within?(origin.host, domain)) || domain == origin.host

          given_path = given["path"] if given["path"]&.start_with?("/")
          Cookie.new(name, value, domain.empty? ? origin.host : domain, given_path || path[%r{\A(/.*)/[^/]*\z}, 1] || "/", domain.empty?,
                     given.key?("secure"), ending(given))
        end

        def ending(given)
          age = given["max-age"]
          return Time.now + age.to_i if age&.match?(/\A-?\d{1,10}\z/)

          Time.parse(given["expires"]) if given["expires"]
        rescue ArgumentError
          nil
        end
      end
    end
  end
end
