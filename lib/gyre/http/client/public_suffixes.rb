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
              File.foreach(FILE, encoding: "UTF-8").grep(%r{\A(?!//)\S}).to_h { |line| [line[/\S+/], true] }
          rescue SystemCallError
            Ractor.current[:gyre_http_client_suffixes] = {}
          end
        end
      end
    end
  end
end
