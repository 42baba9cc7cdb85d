# frozen_string_literal: true

# The names of a hosts file, hosts(5). Used by Gyre::DNS::Resolver, before any server is asked.
# Reads text and opens no file.

require "resolv"

module Gyre
  module DNS
    class Hosts
      # Ignores lines that do not begin with an address, as glibc does.
      def initialize(text)
        @addresses = {}
        text.each_line do |line|
          address, *names = line.scrub.sub(/#.*/m, "").split
          next unless address&.match?(Resolv::AddressRegex)

          names.each { |name| (@addresses[name.downcase] ||= []) << address }
        end
        @addresses.each_value(&:uniq!)
      end

      # @return [Array<String>, nil] in the file's order
      def [](name) = @addresses[name.downcase]
    end
  end
end
