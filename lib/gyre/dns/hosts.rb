# frozen_string_literal: true

# Names of a hosts file, hosts(5), for Gyre::DNS::Resolver. Opens no file.

require "resolv"

module Gyre
  module DNS
    class Hosts
      # Ignores lines without a leading address, as glibc does.
      def initialize(text)
        @addresses = {}
        text.each_line do |line|
          address, *names = line.scrub.sub(/#.*/m, "").split
          next unless address&.match?(Resolv::AddressRegex)

          names.each { |name| (@addresses[name.downcase] ||= []) << address }
        end
        @addresses.each_value(&:uniq!)
      end

      def [](name) = @addresses[name.downcase]
    end
  end
end
