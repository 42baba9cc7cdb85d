# frozen_string_literal: true

# Rules in RubyDNS's format: patterns, types and blocks. The extension calls them with a Transaction
# for each request that no zone answers.
require "gyre/dns/server_address"
require "gyre/dns/transaction"

module Gyre
  module DNS
    # The block of Gyre::DNS.run is evaluated in a Rules object.
    #
    #   IN = Resolv::DNS::Resource::IN
    #   Gyre::DNS.run("127.0.0.1:5300") do
    #     match("www.example.org", IN::A) { |transaction| transaction.respond!("192.0.2.1") }
    #     otherwise { |transaction| transaction.fail!(:NXDomain) }
    #   end
    class Rules
      # Default networks of {Transaction#passthrough!}.
      LOOPBACK = %w[127.0.0.0/8 ::1/128].freeze
      REFUSED = ->(transaction) { transaction.fail!(:Refused) }
      # Maximum pairs of name and type whose matching rules are cached.
      FOUND_LIMIT = 10_000
      # Ends a block without an answer. Not a StandardError, so that the block does not rescue it.
      Next = Class.new(Exception) # rubocop:disable Lint/InheritException
      private_constant :REFUSED, :FOUND_LIMIT, :Next

      # @return [Hash{String => String}] files by origin
      attr_reader :zones
      # @return [Array<String>] name servers
      attr_reader :upstreams

      # @param recursion [Array<String>] networks that may use {Transaction#passthrough!}
      # @yield the rules
      def initialize(recursion: LOOPBACK, &block)
        self.recursion(*recursion)
        @recursion_given = recursion != LOOPBACK
        @zones = {}
        @upstreams = []
        @rules = []
        @events = {}
        @otherwise = nil
        @found = {} # type => { key => blocks of the matching rules }
        @kept = 0
        instance_eval(&block) if block
      end

      # @return [Boolean] whether no block takes unmatched questions
      # @api private
      def open? = @otherwise.nil?

      # @return [Boolean] whether there are no rules
      def empty? = @rules.empty? && @otherwise.nil?

      # @return [Boolean] whether the client is in one of {#recursion}'s networks
      # @api private
      def recursive?(sockaddr)
        address = sockaddr.byteslice(sockaddr.bytesize == 16 ? 4..7 : 8..23)
        return false if address.nil? || address.empty?

        @clients.clear if @clients.size > FOUND_LIMIT
        @clients.fetch(address) do
          ip = IPAddr.new_ntoh(address).native
          @clients[address] = @networks.any? { |network| network.include?(ip) }
        end
      end

      # Returns the networks for {Responder#use}, if this server is known to offer recursion.
      # @api private
      def packed_networks
        return unless @recursion_given || @upstreams.any?

        @networks.map { |network| [network.ipv4? ? 4 : 16, network.prefix, network.hton].pack("CCa16") }.join
      end

      # Adds a rule.
      # @param pattern [String, Regexp, #call] a name, escaped or not; a Regexp and a callable get
      #   the escaped name, the callable also the resource class
      # @param types [Array<Class>] resource classes; none: all
      # @yieldparam transaction [Transaction]
      # @yieldparam match [MatchData] of a Regexp; of the lower-case name if only that matches
      def match(pattern, *types, &block)
        numbers = types.flatten.compact.map { |type| DNS.type_number(type) }
        key = case pattern
              when String then (DNS.canonical(pattern) rescue pattern.downcase) # an invalid name never matches
              when Regexp then Regexp.new(pattern.source, pattern.options | Regexp::IGNORECASE)
              end
        @rules << [numbers, key, matching(pattern, key, block)]
        @found.clear
      end

      # @yieldparam transaction [Transaction] of an unmatched question. If no block is given, the
      #   question is REFUSED.
      def otherwise(&block)
        @otherwise = block
        @found.clear
      end

      # Serves a zone file.
      # @param origin [String]
      # @param path [String]
      def zone(origin, path) = @zones[origin.to_s.delete_suffix(".")] = path.to_s

      # Forwards all unmatched questions, but only from {#recursion} networks.
      # @param servers [Array<String>] as for {Upstream#initialize}
      def upstream(*servers) = @upstreams.concat(servers.flatten)

      # @param networks [Array<String>] that may use {Transaction#passthrough!} and {#upstream}
      def recursion(*networks)
        @recursion_given = true
        @networks = networks.flatten.map { |network| DNS.network(network) }
        @clients = {} # a client's address => whether a network includes it; IPAddr is slow
      end

      # Names a block for {#fire}.
      def on(name, &block) = @events[name.to_sym] = block

      # @return [Object] the named block's value
      def fire(name, *arguments) = @events[name.to_sym]&.call(*arguments)

      # Called in a rule's block: skips to the next matching rule.
      def next! = raise(Next, "next! was called outside of a rule", [])

      # Called by the extension.
      # @param transaction [Transaction]
      # @param again [Boolean] true: a forwarder got no whole answer; calls `otherwise`'s block only
      # @return [String, nil] a response; nil if the transaction has it
      # @api private
      def call(transaction, again = false)
        again ? @otherwise.call(transaction) : process(transaction)
        transaction.result
      rescue FormatError # a record behind the question is malformed
        transaction.only_code(1)
      rescue StandardError, ScriptError, SystemStackError => error
        report(error)
        transaction.only_code(2)
      end

      # @param transaction [Transaction]
      # @api private
      def process(transaction)
        rules = (@found[transaction.type] ||= {})[transaction.key] || find(transaction)
        index = -1
        nil until (rule = rules[index += 1]).nil? || run(rule, transaction)
      end

      private

      # Returns the blocks of the matching rules, in order.
      def find(transaction)
        name, type = transaction.key, transaction.type
        @found = {} if ((@kept += 1) % FOUND_LIMIT).zero?
        fitting = @rules.select { |types, key| (types.empty? || types.include?(type)) && (key.nil? || key === name) }
        (@found[type] ||= {})[name] = fitting.map(&:last) << (@otherwise || REFUSED)
      end

      # Names match in any letter case, as clients may vary the case (0x20). `key` is the pattern
      # for names in lower case. `key` is nil for a callable, which is called for each question.
      def matching(pattern, key, block)
        return block if key.is_a?(String) || (key && [0, 1].include?(block.arity))

        lambda do |transaction|
          found = key ? pattern.match(transaction.name) || key.match(transaction.key) : pattern.call(transaction.name, transaction.resource_class)
          next! unless found
          found.is_a?(MatchData) ? block.call(transaction, found) : block.call(transaction)
        end
      end

      # @return [Boolean] false: the next rule must answer
      def run(block, transaction)
        block.call(transaction)
        true
      rescue Next
        false
      end

      # May run in a web server's thread (DNS over HTTPS).
      def report(error)
        return Fiber.scheduler.report(error, Fiber.current) if Fiber.scheduler.is_a?(Scheduler)

        $stderr.write("gyre: unhandled in a DNS rule: #{error.full_message(highlight: false).chomp}\n")
      end
    end
  end
end
