# frozen_string_literal: true

# Public suffixes for Cookies: domains below which anyone can register names, such as com and co.uk.
# Read from Debian's package publicsuffix. If the package is missing, only top-level domains are
# suffixes.

module Gyre
  module HTTP
    class Client
      module PublicSuffixes
        FILE = "/usr/share/publicsuffix/public_suffix_list.dat"
        private_constant :FILE

        class << self
          def include?(domain) = suffix(domain) == domain

          # Returns a host's registered domain (suffix and one label). Keeps an IP address as it is.
          def site(host)
            return host if host.match?(/\A[\d.]+\z|:/)

            host[/[^.]+\.#{Regexp.escape(suffix(host))}\z/] || host
          end

          private

          # Uses the longest matching rule (https://publicsuffix.org/list/).
          def suffix(host)
            labels = host.split(".")
            labels.each_index do |index|
              name = labels.drop(index).join(".")
              parent = labels.drop(index + 1).join(".")
              return parent if rules.key?("!#{name}")
              return name if rules.key?(name) || rules.key?("*.#{parent}")
            end
            labels.last.to_s
          end

          def rules
            Ractor.current[:gyre_http_client_suffixes] ||=
              File.foreach(FILE, encoding: "UTF-8").grep(%r{\A(?!//)\S}).to_h { |line| [ascii(line[/\S+/]), true] }
          rescue SystemCallError
            Ractor.current[:gyre_http_client_suffixes] = {}
          end

          # Returns a name as hosts have it, in Punycode.
          def ascii(name)
            return name if name.ascii_only?

            name.split(".").map { |label| label.ascii_only? ? label : "xn--#{punycode(label.codepoints)}" }.join(".")
          end

          # RFC 3492, section 6.3.
          def punycode(points)
            basic = points.select { |point| point < 128 }
            text = basic.pack("U*") + (basic.empty? ? "" : "-")
            handled = basic.size
            last = 128
            delta = 0
            bias = 72
            until handled == points.size
              point = points.select { |other| other >= last }.min
              delta += (point - last) * (handled + 1)
              points.each do |other|
                delta += 1 if other < point
                next unless other == point

                text << digits(delta, bias)
                bias = adapt(delta, handled + 1, handled == basic.size)
                delta = 0
                handled += 1
              end
              delta += 1
              last = point + 1
            end
            text
          end

          def digits(number, bias)
            text = +""
            at = 0
            loop do
              least = ((at += 36) - bias).clamp(1, 26)
              return text << digit(number) if number < least

              text << digit(least + ((number - least) % (36 - least)))
              number = (number - least) / (36 - least)
            end
          end

          def digit(value) = value < 26 ? (97 + value).chr : (value - 26).to_s

          def adapt(delta, count, first)
            delta = first ? delta / 700 : delta / 2
            delta += delta / count
            steps = 0
            while delta > 455
              delta /= 35
              steps += 36
            end
            steps + (36 * delta / (delta + 38))
          end
        end
      end
    end
  end
end
