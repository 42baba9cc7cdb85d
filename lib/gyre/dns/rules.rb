# frozen_string_literal: true

# Rules like RubyDNS's: patterns, types, blocks. Makes responses to requests that no zone answers,
# for the server.
require "ipaddr"
require "gyre/dns/transaction"

module Gyre
  module DNS
    # The body of Gyre::DNS.run; its methods are called in the block.
    #
    #   IN = Resolv::DNS::Resource::IN
    #   Gyre::DNS.run("127.0.0.1:5300") do
    #     match("www.example.org", IN::A) { |transaction| transaction.respond!("192.0.2.1") }
    #     otherwise { |transaction| transaction.fail!(:NXDomain) }
    #   end
    class Rules
      # Default networks of {Transaction#passthrough!}.
      LOOPBACK = %w[127.0.0.0/8 ::1/128].freeze
      # Request flags that the response repeats: opcode, RD, CD.
      REPEATED = 0x7910
      Rule = Struct.new(:pattern, :types, :block)
      private_constant :REPEATED, :Rule

      # @return [Hash{String => String}] files by origin
      attr_reader :zones
      # @return [Array<String>] name servers
      attr_reader :upstreams

      # @param recursion [Array<String>] networks that may use {Transaction#passthrough!}
      # @yield the rules
      def initialize(recursion: LOOPBACK, &block)
        @networks = recursion.map { |network| IPAddr.new(network) }
        @zones = {}
        @upstreams = []
        @rules = []
        @events = {}
        @otherwise = nil
        instance_eval(&block) if block
      end

      # @return [Boolean] whether unmatched questions have no block
      # @api private
      def open? = @otherwise.nil?

      # @return [Boolean] whether there are none
      def empty? = @rules.empty? && @otherwise.nil?

      # Adds a rule.
      # @param pattern [String, Regexp, #call] a name; a callable gets name and resource class
      # @param types [Array<Class>] resource classes; none: all
      # @yieldparam transaction [Transaction]
      # @yieldparam match [MatchData] of a Regexp
      # @return [void]
      def match(pattern, *types, &block)
        numbers = types.flatten.compact.map { |type| DNS.type_number(type) }
        @rules << Rule.new(pattern.is_a?(String) ? pattern.delete_suffix(".") : pattern, numbers, block)
      end

      # @yieldparam transaction [Transaction] of an unmatched question; without a block they are
      #   REFUSED
      # @return [void]
      def otherwise(&block)
        @otherwise = block
      end

      # Serves a zone file.
      # @param origin [String]
      # @param path [String]
      # @return [void]
      def zone(origin, path)
        @zones[origin.to_s.delete_suffix(".")] = path.to_s
      end

      # Passes on all other questions, from {#recursion} networks only.
      # @param servers [Array<String>] as for {Upstream#initialize}
      # @return [void]
      def upstream(*servers) = @upstreams.concat(servers.flatten)

      # @param networks [Array<String>] that may use {Transaction#passthrough!} and {#upstream}
      # @return [void]
      def recursion(*networks)
        @networks = networks.flatten.map { |network| IPAddr.new(network) }
      end

      # Names a block for {#fire}.
      # @return [void]
      def on(name, &block)
        @events[name.to_sym] = block
      end

      # @return [Object] the named block's value
      def fire(name, *arguments) = @events[name.to_sym]&.call(*arguments)

      # Continues with the next rule, within a rule.
      def next! = throw(:rule, :next)

      # @param peer [Addrinfo, nil] nil: unknown
      # @return [Boolean]
      # @api private
      def recursion_allowed?(peer)
        return false unless peer&.ip?

        address = IPAddr.new(peer.ip_address[/[^%]+/]).native
        @networks.any? { |network| network.family == address.family && network.include?(address) }
      end

      # @param bytes [String] of a checked request with one question
      # @param peer [String] a struct sockaddr
      # @param limit [Integer] bytes
      # @param edns [EDNS, nil] of the response
      # @return [String] a response
      # @api private
      def call(bytes, peer, limit, edns)
        query = Message.parse(bytes)
        response = Message.new(query.id, Message::QR | Message::AA | query.flags & REPEATED, questions: query.questions, edns: edns)
        begin
          transaction = Transaction.new(self, query, query.questions.first, response, peer)
          process(transaction)
          transaction.reply ? adapt(transaction.reply, edns, limit) : response.encode(limit: limit)
        rescue StandardError, ScriptError, SystemStackError => error
          report(error)
          failed(query.id, query.flags, 2, edns, query.questions).encode(limit: limit)
        end
      rescue FormatError # of a record behind the question
        failed(*bytes.unpack("n2"), 1, edns).encode(limit: limit)
      end

      # @param transaction [Transaction]
      # @return [void]
      # @api private
      def process(transaction)
        name, type = transaction.name, transaction.type
        @rules.each do |rule|
          next unless rule.types.empty? || rule.types.include?(type)

          found = match_of(rule.pattern, name, transaction) or next
          return if run(rule.block, transaction, found) != :next
        end
        return transaction.fail!(:Refused) unless @otherwise

        run(@otherwise, transaction, nil)
      end

      private

      # Ignores case, which clients may vary (0x20).
      def match_of(pattern, name, transaction)
        case pattern
        when String then pattern.casecmp(name)&.zero?
        when Regexp then pattern.match(name) || pattern.match(name.downcase)
        else pattern.call(name, transaction.resource_class)
        end
      end

      # @return [:next, nil]
      def run(block, transaction, found)
        catch(:rule) do
          found.is_a?(MatchData) ? block.call(transaction, found) : block.call(transaction)
          nil
        end
      end

      def adapt(reply, edns, limit)
        Wire.adapt(reply, edns, limit) || Message.parse(reply).tap { |message| message.edns = edns }.encode(limit: limit)
      end

      def failed(id, flags, rcode, edns, questions = [])
        Message.new(id, Message::QR | flags & REPEATED, rcode: rcode, questions: questions, edns: edns)
      end

      # May run in another server's thread, over HTTPS.
      def report(error)
        return Fiber.scheduler.report(error, Fiber.current) if Fiber.scheduler.is_a?(Scheduler)

        $stderr.write("gyre: unhandled in a DNS rule: #{error.full_message(highlight: false).chomp}\n")
      end
    end
  end
end
