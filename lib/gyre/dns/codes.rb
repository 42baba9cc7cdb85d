# frozen_string_literal: true

# Numbers and names of DNS: types, classes, response codes, EDNS options (IANA, "Domain Name System
# Parameters").
module Gyre
  module DNS
    # Record types by name.
    TYPES = {
      "A" => 1, "NS" => 2, "CNAME" => 5, "SOA" => 6, "PTR" => 12, "HINFO" => 13, "MINFO" => 14, "MX" => 15, "TXT" => 16, "RP" => 17,
      "AFSDB" => 18, "SIG" => 24, "KEY" => 25, "AAAA" => 28, "LOC" => 29, "SRV" => 33, "NAPTR" => 35, "KX" => 36, "CERT" => 37,
      "DNAME" => 39, "OPT" => 41, "DS" => 43, "SSHFP" => 44, "IPSECKEY" => 45, "RRSIG" => 46, "NSEC" => 47, "DNSKEY" => 48,
      "DHCID" => 49, "NSEC3" => 50, "NSEC3PARAM" => 51, "TLSA" => 52, "SMIMEA" => 53, "CDS" => 59, "CDNSKEY" => 60, "OPENPGPKEY" => 61,
      "CSYNC" => 62, "ZONEMD" => 63, "SVCB" => 64, "HTTPS" => 65, "SPF" => 99, "TKEY" => 249, "TSIG" => 250, "IXFR" => 251,
      "AXFR" => 252, "ANY" => 255, "URI" => 256, "CAA" => 257
    }.freeze
    # Classes by name.
    CLASSES = { "IN" => 1, "CH" => 3, "HS" => 4, "NONE" => 254, "ANY" => 255 }.freeze
    # Response codes by name, as in Resolv::DNS::RCode.
    RCODES = { NoError: 0, FormErr: 1, ServFail: 2, NXDomain: 3, NotImp: 4, Refused: 5, YXDomain: 6, YXRRSet: 7, NXRRSet: 8, NotAuth: 9,
               NotZone: 10, BADVERS: 16, BADSIG: 16, BADKEY: 17, BADTIME: 18, BADMODE: 19, BADNAME: 20, BADALG: 21, BADTRUNC: 22,
               BADCOOKIE: 23 }.freeze
    TYPE_NAMES = TYPES.invert.freeze
    CLASS_NAMES = CLASSES.invert.freeze
    private_constant :TYPE_NAMES, :CLASS_NAMES

    class << self
      # Takes "A", "TYPE65280" (RFC 3597), a number, or a resource class. Raises ArgumentError.
      def type_number(type) = number(type, TYPES, "TYPE", :TypeValue)

      # Takes "IN", "CLASS65280", a number, or a resource class. Raises ArgumentError.
      def class_number(klass) = number(klass, CLASSES, "CLASS", :ClassValue)

      def type_name(number) = TYPE_NAMES[number] || "TYPE#{number}"

      def class_name(number) = CLASS_NAMES[number] || "CLASS#{number}"

      # Takes :NXDomain or a number. Raises ArgumentError.
      def rcode_number(rcode)
        return rcode if rcode.is_a?(Integer) && rcode.between?(0, 4095)

        RCODES[rcode] || raise(ArgumentError, "#{rcode.inspect} is not a response code: use one of #{RCODES.keys.join(", ")}")
      end

      def rcode_name(number) = RCODES.key(number) || number

      private

      def number(given, table, word, constant)
        return given if given.is_a?(Integer) && given.between?(0, 65_535)
        return given.const_get(constant) if given.is_a?(Class) && given.const_defined?(constant)

        name = given.to_s.upcase
        known = table[name] || name[/\A#{word}(\d{1,5})\z/, 1]&.to_i
        known && known < 65_536 ? known : raise(ArgumentError, "#{given.inspect} is not a DNS #{word.downcase}")
      end
    end
  end
end
