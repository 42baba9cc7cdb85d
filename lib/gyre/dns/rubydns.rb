# frozen_string_literal: true

# `require "gyre/dns/rubydns"`: RubyDNS and the parts of Async::DNS that programs of RubyDNS use, on
# Gyre::DNS::Server. A later `require "rubydns"` changes nothing, even if the gem is missing.

raise LoadError, "require gyre/dns/rubydns: the rubydns gem is loaded already. Require this before it" if defined?(RubyDNS)

require "forwardable"
require "gyre/dns"

%w[rubydns async/dns async/dns/server async/dns/resolver async/dns/extensions/string].each { |name| $LOADED_FEATURES << "#{name}.rb" }

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

      def self.name(record) = Resolv::DNS::Name.create("#{record.name}.")
    end
    Message.include(ResolvMethods)

    # `question` returns only the question's name, as in RubyDNS.
    module NamedQuestion
      def question = ResolvMethods.name(super)
    end
    Transaction.prepend(NamedQuestion)
  end
end

module Async
  module DNS
    Transaction = Gyre::DNS::Transaction

    # Makes a transaction without a server, as in RubyDNS's tests. Ignores the given response.
    def Transaction.new(server, query, question, resource_class, _response = nil, **options)
      rules = server.is_a?(Server) ? server.rules : Gyre::DNS::Rules.new
      responder = Gyre::DNS::Responder.new(0)
      responder.use([], rules)
      bytes = Gyre::DNS::Message.query(question.to_s, resource_class || 1, id: query&.id || 0).encode
      responder.respond(bytes, Socket.sockaddr_in(0, "127.0.0.1")).tap { |made| made.instance_variable_set(:@options, options) }
    end

    # Addresses in RubyDNS's format.
    module Endpoint
      def self.for(nameservers, port: 53) = Array(nameservers).flat_map { |host| [[:udp, host, port], [:tcp, host, port]] }
    end

    # Asks the given name servers, or the system's.
    class Resolver < Gyre::DNS::Resolver
      def self.default = new

      def initialize(endpoints = [], timeout: 5, **)
        addresses = endpoints.to_a.sort_by { |transport, *| transport == :tcp ? 1 : 0 }.uniq { |_, host, port| [host, port] }
        super(*addresses.map { |transport, host, port| "#{transport}://#{host.include?(":") ? "[#{host}]" : host}:#{port}" }, timeout_s: timeout)
      end
    end

    # Subclasses answer in `process`.
    class Server
      # Rules that pass each question to the server's `process`.
      class Rules < Gyre::DNS::Rules
        attr_writer :server

        alias answer process

        def empty? = false

        def open? = false

        def process(transaction) = @server.process(transaction.name, transaction.resource_class, transaction)
      end
      private_constant :Rules

      def self.default_endpoint(port = 53) = Endpoint.for("localhost", port: port)

      attr_accessor :origin
      attr_reader :rules

      def initialize(endpoint = self.class.default_endpoint, origin: ".")
        @endpoint = endpoint
        @origin = origin
        @rules = Rules.new
        @rules.server = self
      end

      def logger
        require "gyre/logger"
        @logger ||= Logger.new($stderr, level: :warn)
      end

      def process(_name, _resource_class, transaction) = transaction.fail!(:NXDomain)

      def fire(...) = @rules.fire(...)

      # Serves until the process ends. Under a reactor of Async, serves in a task of the reactor.
      def run(&block)
        server = Gyre::DNS::Server.new(*@endpoint, load: -> { @rules })
        return server.run(&block) unless Fiber.current_scheduler && defined?(Async::Task)

        Async do
          thread = Thread.new { server.run(&block) }
          thread.join
        ensure
          server.stop
          Thread.pass while thread.alive? # a stopped task cannot wait
        end
      end
    end
  end
end

# The interface of RubyDNS.
module RubyDNS
  Resolver, Transaction = Async::DNS::Resolver, Async::DNS::Transaction

  # A rule by itself.
  class Rule
    def self.for(pattern, &block) = new(pattern, block)

    def initialize(pattern, block)
      @pattern = pattern
      @block = block
    end

    # Returns whether the pattern matches.
    def call(_server, name, resource_class, transaction)
      fits = false
      rules = Gyre::DNS::Rules.new
      rules.match(*@pattern) { |_, *found| (fits = true) && @block.call(transaction, *found) }
      rules.process(Transaction.new(nil, nil, name, resource_class))
      fits
    end
  end

  # A server with rules.
  class Server < Async::DNS::Server
    Rule = RubyDNS::Rule

    extend Forwardable

    def_delegators :@rules, :match, :otherwise, :on, :next!

    def process(_name, _resource_class, transaction) = rules.answer(transaction)
  end
  RuleBasedServer = Server

  def self.run(*arguments, server_class: Server, listen: nil, **options, &block)
    server = server_class.new(*arguments, *listen&.then { [listen] }, **options)
    server.instance_eval(&block) if block
    server.run
  end

  def self.run_server(...) = run(...)
end

class String
  # Splits the String into texts for a TXT record.
  def chunked(bytes = 255) = b.scan(/.{1,#{bytes}}/mn)
end
