# frozen_string_literal: true

# `require "gyre/dns/rubydns"`: RubyDNS and the parts of Async::DNS that its programs use, on
# Gyre::DNS::Server. A later `require "rubydns"` changes nothing, with or without the gem.

raise LoadError, "require gyre/dns/rubydns: the rubydns gem is loaded already. Require this before it" if defined?(RubyDNS)

require "gyre/dns"

$LOAD_PATH.unshift(File.join(__dir__, "rubydns", "features"))

module Gyre
  module DNS
    # Methods of Resolv::DNS::Message that rules call.
    module ResolvMethods
      { qr: Message::QR, aa: Message::AA, tc: Message::TC, rd: Message::RD, ra: Message::RA }.each do |name, bit|
        define_method(name) { flags.anybits?(bit) ? 1 : 0 }
        define_method(:"#{name}=") { |value| self.flags = value.to_i.zero? ? flags & ~bit : flags | bit }
      end

      { answer: :answers, authority: :authority, additional: :additional }.each do |name, section|
        define_method(:"add_#{name}") { |owner, ttl, resource| public_send(section) << Record.for(owner, ttl, resource) }
        define_method(:"each_#{name}") { |&block| public_send(section).each { |each| block.call(ResolvMethods.name(each), each.ttl, each.resource) } }
      end

      def answer = answers.map { |record| [ResolvMethods.name(record), record.ttl, record.resource] }

      def question = questions.map { |each| [ResolvMethods.name(each), each.resource_class] }

      def merge!(other)
        %i[answers authority additional].each { |section| public_send(section).concat(other.public_send(section)) }
      end

      def self.name(record) = Resolv::DNS::Name.create("#{record.name}.")
    end
    Message.include(ResolvMethods)

    # A question that is a name, as in RubyDNS.
    module NamedQuestion
      def question = ResolvMethods.name(super)
    end
    Transaction.prepend(NamedQuestion)
  end
end

module Async
  module DNS
    Transaction = Gyre::DNS::Transaction

    # Addresses as RubyDNS's programs write them.
    module Endpoint
      def self.for(nameservers, port: 53)
        Array(nameservers).flat_map { |host| [[:udp, host, port], [:tcp, host, port]] }
      end
    end

    # Asks these name servers, or the system's.
    class Resolver < Gyre::DNS::Resolver
      def initialize(endpoints = [], **)
        addresses = endpoints.to_a.reject { |transport, *| transport == :tcp }
        super(*addresses.map { |_, host, port| host.include?(":") ? "[#{host}]:#{port}" : "#{host}:#{port}" })
      end
    end

    # Subclasses answer in `process`.
    class Server
      # Gyre's rules, asked by the server.
      class Rules < Gyre::DNS::Rules
        attr_writer :server

        def empty? = false

        def open? = false

        def process(transaction) = @server.process(transaction.name, transaction.resource_class, transaction)
      end
      private_constant :Rules

      def self.default_endpoint(port = 53) = Endpoint.for("localhost", port: port)

      def initialize(endpoint = self.class.default_endpoint, origin: ".")
        @endpoint = endpoint
        @origin = origin
        @rules = Rules.new
        @rules.server = self
      end

      attr_accessor :origin

      def process(_name, _resource_class, transaction) = transaction.fail!(:NXDomain)

      def fire(...) = @rules.fire(...)

      # Serves until the process ends.
      def run(&block) = Gyre::DNS::Server.new(*@endpoint, load: -> { @rules }).run(&block)
    end
  end
end

# The interface of RubyDNS.
module RubyDNS
  Resolver = Async::DNS::Resolver

  # A server with rules.
  class Server < Async::DNS::Server
    def initialize(...)
      super
      @written = Gyre::DNS::Rules.new
    end

    def match(...) = @written.match(...)
    def otherwise(...) = @written.otherwise(...)
    def on(...) = @written.on(...)
    def fire(...) = @written.fire(...)
    def next! = @written.next!

    def process(_name, _resource_class, transaction) = @written.process(transaction)
  end

  def self.run(*arguments, server_class: Server, **options, &block)
    server = server_class.new(*arguments, **options)
    server.instance_eval(&block) if block
    server.run
  end

  def self.run_server(...) = run(...)
end

unless defined?(IO::Endpoint)
  class IO
    # Addresses that programs make with the gem io-endpoint.
    module Endpoint
      def self.udp(host, port, **) = [:udp, host, port]
      def self.tcp(host, port, **) = [:tcp, host, port]
      def self.composite(*endpoints) = endpoints
    end
  end
end
