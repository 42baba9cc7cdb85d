# frozen_string_literal: true

# Random DNS messages, well-formed ones by Ruby's resolv. Used by the differential test and the
# fuzzer.
require "resolv"

module DNSSamples
  IN = Resolv::DNS::Resource::IN
  LABELS = %w[a www example org mail _tcp x-y EXAMPLE].freeze

  class << self
    # @return [Array<String>]
    def messages(random, count) = Array.new(count) { message(random) }

    def message(random)
      message = Resolv::DNS::Message.new(random.rand(65_536))
      message.qr = random.rand(2)
      message.rd = random.rand(2)
      message.add_question(name(random), IN::A)
      random.rand(4).times { message.add_answer(name(random), random.rand(1 << 31), resource(random)) }
      random.rand(2).times { message.add_authority(name(random), random.rand(1 << 31), resource(random)) }
      random.rand(3).times { message.add_additional(name(random), random.rand(1 << 31), resource(random)) }
      message.encode.b
    end

    def name(random) = Resolv::DNS::Name.create("#{Array.new(1 + random.rand(4)) { LABELS.sample(random: random) }.join(".")}.")

    def resource(random)
      case random.rand(10)
      when 0 then IN::A.new(Array.new(4) { random.rand(256) }.join("."))
      when 1 then IN::AAAA.new(Array.new(8) { random.rand(65_536).to_s(16) }.join(":"))
      when 2 then IN::NS.new(name(random))
      when 3 then IN::CNAME.new(name(random))
      when 4 then IN::PTR.new(name(random))
      when 5 then IN::MX.new(random.rand(65_536), name(random))
      when 6 then IN::TXT.new(*Array.new(1 + random.rand(3)) { random.bytes(random.rand(40)) })
      when 7 then IN::SRV.new(random.rand(9), random.rand(9), random.rand(65_536), name(random))
      when 8 then IN::HINFO.new("cpu", "os")
      else IN::SOA.new(name(random), name(random), random.rand(1 << 31), 2, 3, 4, 5)
      end
    end
  end
end
