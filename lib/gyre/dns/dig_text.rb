# frozen_string_literal: true

# Formats messages like dig (RFC 1035, section 5.1; RFC 3597), for `gyre dns query`.

require "ipaddr"
require "gyre/dns/zone_file"

module Gyre
  module DNS
    module DigText
      FLAGS = { qr: Message::QR, aa: Message::AA, tc: Message::TC, rd: Message::RD, ra: Message::RA, ad: Message::AD, cd: Message::CD }.freeze
      SECTIONS = %i[answers authority additional].freeze
      private_constant :FLAGS, :SECTIONS

      class << self
        def message(message)
          sections = SECTIONS.flat_map { |section| section(section, message.public_send(section)) }
          [header(message), *edns(message.edns), "", ";; QUESTION SECTION:", *message.questions.map { |each| question(each) }, *sections].join("\n")
        end

        # Returns a line of a zone file.
        def record(record)
          [name(record.name).ljust(23), record.ttl, DNS.class_name(record.klass), DNS.type_name(record.type), data(record)].join("\t")
        end

        def data(record)
          (own_form(record) || words(record.resource)).join(" ")
        rescue FormatError, NoMatchingPatternError
          "\\# #{record.data.bytesize} #{record.data.unpack1("H*").upcase}".rstrip
        end

        private

        def header(message)
          flags = FLAGS.select { |_, bit| message.flags.anybits?(bit) }.keys.join(" ")
          counts = [message.questions, *SECTIONS.map { |section| message.public_send(section) }].map(&:size)
          counts[3] += 1 if message.edns
          status = DNS.rcode_name(message.rcode).to_s.upcase.sub(/\A\d/, 'RESERVED\0')
          ";; ->>HEADER<<- opcode: QUERY, status: #{status}, id: #{message.id}\n" \
            ";; flags: #{flags}; #{%w[QUERY ANSWER AUTHORITY ADDITIONAL].zip(counts).map { |pair| pair.join(": ") }.join(", ")}"
        end

        def edns(edns)
          return unless edns

          ["", ";; OPT PSEUDOSECTION:", "; EDNS: version: #{edns.version}, flags:#{" do" if edns.dnssec?}; udp: #{edns.udp_bytes}",
           *edns.options.map { |code, bytes| "; OPT=#{code}: #{bytes.unpack1("H*")}" }]
        end

        def question(question)
          ";#{name(question.name).ljust(22)}\t\t#{DNS.class_name(question.klass)}\t#{DNS.type_name(question.type)}"
        end

        def section(title, records)
          records.empty? ? [] : ["", ";; #{title.to_s.sub(/s\z/, "").upcase} SECTION:", *records.map { |each| record(each) }]
        end

        def name(name) = escaped("#{name.to_s.delete_suffix(".")}.")

        # Returns the words of types that resolv does not know in all its versions; nil: of others.
        def own_form(record)
          case DNS.type_name(record.type)
          when "HTTPS", "SVCB" then service(record.data)
          when "URI" then [*record.data.unpack("nn"), quoted(record.data.byteslice(4..) || "")]
          when "LOC" then location(*record.data.unpack("C4N3"))
          end
        end

        def service(data)
          priority, name = data.unpack1("n"), Wire.text(data.byteslice(2..))
          rest = data.byteslice((2 + Wire.name(name).bytesize)..)
          words = [priority, name(name)]
          until rest.empty?
            key, size = rest.unpack("nn")
            words << parameter(key, rest.byteslice(4, size))
            rest = rest.byteslice(4 + size..) or raise FormatError
          end
          words
        rescue ArgumentError, NoMethodError
          raise FormatError
        end

        def parameter(key, value)
          name = ZoneData::PARAMETERS[key] || "key#{key}"
          text = case name
                 when "mandatory" then value.unpack("n*").map { |each| ZoneData::PARAMETERS[each] || "key#{each}" }.join(",")
                 when "alpn" then quoted(items(value).map { |item| item.gsub(/[,\\]/n) { "\\#{_1}" } }.join(","))
                 when "port" then value.unpack1("n")
                 when "ipv4hint" then value.unpack("C*").each_slice(4).map { |bytes| bytes.join(".") }.join(",")
                 when "ipv6hint" then value.unpack("a16" * (value.bytesize / 16)).map { |bytes| IPAddr.new_ntoh(bytes) }.join(",")
                 when "ech" then [value].pack("m0")
                 else quoted(value)
                 end
          value.empty? ? name : "#{name}=#{text}"
        end

        def items(value)
          found = []
          until value.empty?
            found << value.byteslice(1, value.getbyte(0))
            value = value.byteslice((1 + value.getbyte(0))..) or raise FormatError
          end
          found
        end

        def location(version, size, horizontal, vertical, latitude, longitude, altitude)
          raise FormatError unless version&.zero? && altitude

          [*angle(latitude, "N", "S"), *angle(longitude, "E", "W"), metres(altitude - 10_000_000),
           *[size, horizontal, vertical].map { |each| metres((each >> 4) * 10**(each & 15)) }]
        end

        def angle(number, plus, minus)
          thousandths = (number - (1 << 31)).abs
          [thousandths / 3_600_000, thousandths / 60_000 % 60, format("%.3f", thousandths % 60_000 / 1000.0), number < 1 << 31 ? minus : plus]
        end

        def metres(number) = format("%.2fm", number / 100.0)

        def words(resource)
          case resource
          in Resolv::DNS::Resource::IN::A | Resolv::DNS::Resource::IN::AAAA then [resource.address.to_s.downcase]
          in Resolv::DNS::Resource::DomainName then [name(resource.name)]
          in Resolv::DNS::Resource::MX then [resource.preference, name(resource.exchange)]
          in Resolv::DNS::Resource::TXT then resource.strings.map { |string| quoted(string) }
          in Resolv::DNS::Resource::HINFO then [quoted(resource.cpu), quoted(resource.os)]
          in Resolv::DNS::Resource::IN::SRV then [resource.priority, resource.weight, resource.port, name(resource.target)]
          in Resolv::DNS::Resource::SOA
            [name(resource.mname), name(resource.rname), resource.serial, resource.refresh, resource.retry, resource.expire, resource.minimum]
          end
        end

        def quoted(string) = %("#{escaped(string.gsub(/["\\]/n) { "\\#{_1}" })}")

        # Escapes control bytes from a server, which must not reach the terminal.
        def escaped(text) = text.b.gsub(/[^ -~]/n) { format("\\%03d", _1.ord) }
      end
    end
  end
end
