# frozen_string_literal: true

# Keeps the cookies of one client in memory (RFC 6265). Client stores the cookies of each response
# and asks for the cookie header of each request. Each site has its own limit, so that it cannot
# displace another site's cookies.

require "gyre/http/client/public_suffixes"

module Gyre
  module HTTP
    class Client
      class Cookies
        SITE_LIMIT = 150
        COUNT_LIMIT = 3000
        BYTES_LIMIT = 4096 # of name and value
        ATTRIBUTE_BYTES_LIMIT = 1024
        MONTHS = %w[jan feb mar apr may jun jul aug sep oct nov dec].freeze
        Cookie = Struct.new(:name, :value, :domain, :path, :host_only, :secure, :until)
        private_constant :SITE_LIMIT, :COUNT_LIMIT, :BYTES_LIMIT, :ATTRIBUTE_BYTES_LIMIT, :MONTHS, :Cookie

        def initialize
          @sites = {} # a site's name => [domain, path, name] => Cookie
          @lock = Thread::Mutex.new
        end

        def header(origin, target)
          return if @sites.empty?

          path = path_of(target)
          chosen = @lock.synchronize do
            cookies = @sites[PublicSuffixes.site(origin.host)] or return
            cookies.delete_if { |_, cookie| cookie.until && cookie.until <= Time.now }
            cookies.values.select { |cookie| matches?(cookie, origin, path) }
          end
          chosen.sort_by { |cookie| -cookie.path.size }.map { |cookie| "#{cookie.name}=#{cookie.value}" }.join("; ") unless chosen.empty?
        end

        def store(origin, target, lines)
          site = PublicSuffixes.site(origin.host)
          lines.each do |line|
            cookie = parse(line, origin, path_of(target)) or next
            @lock.synchronize { put(@sites[site] ||= {}, cookie) }
          end
        end

        private

        def path_of(target) = target[/\A[^?]*/]

        # Stores a cookie. Beyond SITE_LIMIT drops the site's oldest cookie; beyond COUNT_LIMIT
        # drops the oldest cookie of the site with the most cookies.
        def put(cookies, cookie)
          key = [cookie.domain, cookie.path, cookie.name]
          cookies.delete(key)
          cookies[key] = cookie unless cookie.until && cookie.until <= Time.now
          cookies.shift if cookies.size > SITE_LIMIT
          @sites.delete_if { |_, others| others.empty? }
          @sites.each_value.max_by(&:size).shift if @sites.each_value.sum(&:size) > COUNT_LIMIT
        end

        def matches?(cookie, origin, path)
          (cookie.host_only ? origin.host == cookie.domain : within?(origin.host, cookie.domain)) &&
            (!cookie.secure || origin.tls?) &&
            (path == cookie.path || path.start_with?(cookie.path.end_with?("/") ? cookie.path : "#{cookie.path}/"))
        end

        def within?(host, domain) = host == domain || (host.end_with?(".#{domain}") && !host.match?(/\A[\d.]+\z|:/))

        def parse(line, origin, path)
          pair, *attributes = line.split(";")
          name, equals, value = pair.to_s.partition("=").map(&:strip)
          return if name.empty? || equals.empty? || name.bytesize + value.bytesize > BYTES_LIMIT

          attributes.reject! { |text| text.bytesize > ATTRIBUTE_BYTES_LIMIT }
          given = attributes.to_h { |text| text.partition("=").values_at(0, 2).map(&:strip).then { |key, word| [key.downcase, word] } }
          domain = domain_of(given, origin.host)
          return if domain == false || (given.key?("secure") && !origin.tls?)

          given_path = given["path"] if given["path"]&.start_with?("/")
          Cookie.new(name, value, domain || origin.host, given_path || path[%r{\A(/.*)/[^/]*\z}, 1] || "/", domain.nil?, given.key?("secure"),
                     ending(given))
        end

        # Returns the cookie's domain; nil if only this host gets the cookie; false if the domain is
        # foreign (RFC 6265, section 5.3). A public suffix may set cookies for itself only.
        def domain_of(given, host)
          domain = given["domain"].to_s.downcase.delete_prefix(".")
          return if domain.empty?
          return domain == host ? nil : false if PublicSuffixes.include?(domain)

          within?(host, domain) && domain
        end

        def ending(given)
          age = given["max-age"]
          return Time.now + age.to_i if age&.match?(/\A-?\d{1,10}\z/)

          date(given["expires"]) if given["expires"]
        end

        # Reads a date in whatever order; it is always UTC (RFC 6265, section 5.1.1). Returns nil if
        # it is none.
        def date(text)
          clock = day = month = year = nil
          text.scan(/[^\x09\x20-\x2f\x3b-\x40\x5b-\x60\x7b-\x7e]+/) do |word|
            if clock.nil? && (found = word.match(/\A(\d{1,2}):(\d{1,2}):(\d{1,2})(?!\d)/)) then clock = found.captures.map(&:to_i)
            elsif day.nil? && word.match?(/\A\d{1,2}(?!\d)/) then day = word.to_i
            elsif month.nil? && (index = MONTHS.index(word[0, 3].downcase)) then month = index + 1
            elsif year.nil? && word.match?(/\A\d{2,4}(?!\d)/) then year = word.to_i
            end
          end
          return unless clock && day && month && year

          year += year > 69 ? 1900 : 2000 if year < 100
          Time.utc(year, month, day, *clock) if year > 1600 && clock.zip([23, 59, 59]).all? { |value, most| value <= most }
        rescue ArgumentError
          nil # a day that the month does not have
        end
      end
    end
  end
end
