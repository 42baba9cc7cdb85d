# frozen_string_literal: true

# Resolves names by hosts file, search domains, cache and name servers (Gyre::DNS::Upstream), for
# programs and for dns/host_names.rb. Follows aliases only within an answer: name servers are
# recursive.

require "gyre/dns/address_order"
require "gyre/dns/cache"
require "gyre/dns/configuration"
require "gyre/dns/upstream"
require "gyre/sync/promise"

module Gyre
  # Server and resolver for DNS.
  module DNS
    # No server could answer.
    class NoAnswer < Error
      # @return [Message, nil] the failed server's message
      attr_reader :message_received

      # @api private
      def initialize(text = "no answer", received = nil)
        super(text)
        @message_received = received
      end

      # @return [Boolean] whether there was no reply at all
      def silent? = @message_received.nil?
    end

    # Any thread may call its methods. Under a scheduler other fibers run while a method waits.
    # @example
    #   resolver = Gyre::DNS::Resolver.new
    #   resolver.addresses("example.org")                        # => ["2001:db8::1", "192.0.2.1"]
    #   resolver.records("example.org", "MX").map(&:resource)
    class Resolver
      # Maximum number of aliases that are followed in an answer.
      ALIASES_LIMIT = 16
      A, CNAME, AAAA, ANY = 1, 5, 28, 255
      # Bytes of memory for a byte of a parsed message that has many records.
      PARSED = 12
      private_constant :A, :CNAME, :AAAA, :ANY, :PARSED

      # @return [Cache]
      attr_reader :cache

      # If there are no `servers`, follows resolv.conf and its changes.
      # @param servers [Array<String>] as {Upstream#initialize} takes them
      # @param search [Array<String>] domains to append to names; only with `servers`
      # @param ndots [Integer] minimum dots of a name that is first tried as it is; only with
      #   `servers`
      # @param hosts [String, nil] path of the hosts file; nil: none
      # @param resolv_conf [String] path
      # @param cache [Cache]
      # @param options [Hash] as for {Upstream#initialize}
      # @raise [ArgumentError]
      def initialize(*servers, search: [], ndots: 1, hosts: "/etc/hosts", resolv_conf: "/etc/resolv.conf", cache: Cache.new, **options)
        @cache = cache
        @hosts = WatchedFile.new(hosts) { |text| DNS.hosts(text) } if hosts
        @flights = {} # question => Promise; nil until another caller waits
        @lock = SpinLock.new
        @pid = Process.pid
        if servers.any?
          @upstream = Upstream.new(*servers, **options)
          @configuration = Configuration.new("search #{search.join(" ")}\noptions ndots:#{ndots}")
        else
          @file = WatchedFile.new(resolv_conf) { |text| configure(text, options) }
        end
      end

      # Asks about this name only: without search domains.
      # @param name [String]
      # @param type [String, Integer, Class] "MX", 15, Resolv::DNS::Resource::IN::MX
      # @return [Message] even if the name does not exist; a cached message has its original TTLs
      # @raise [NoAnswer]
      # @raise [ArgumentError] the name or the type is invalid
      def query(name, type = A)
        message = ask([[DNS.canonical(name), DNS.type_number(type)]]).first
        message.is_a?(NoAnswer) ? raise(message) : message
      end

      # @param name [String] with search domains, unless it ends with a dot
      # @param type [String, Integer, Class]
      # @return [Array<Record>] empty if there are none
      # @raise [NoAnswer, ArgumentError]
      def records(name, type = A) = search(name, DNS.type_number(type))

      # Asks for IPv4 and IPv6 addresses at once.
      # @param name [String] with search domains, unless it ends with a dot
      # @return [Array<String>] IP addresses in the order to try them (RFC 6724); may be empty
      # @raise [NoAnswer, ArgumentError]
      def addresses(name)
        return [name] if name.match?(Resolv::AddressRegex)

        found = @hosts&.value&.[](name.downcase) || search(name, A, AAAA).map { |record| text(record.data) }
        AddressOrder.sort(found.uniq)
      end

      # Forwards a query's bytes, see {Upstream#forward}, unless the cache has their reply.
      # @return [String, nil]
      def forward(bytes)
        query = Query.wrap(bytes) or return
        reply = cached(query.cache_key)
        upstream.exchange([query]) unless reply
        keep(query.cache_key, query.reply) if query.answered?
        reply ||= cached(query.cache_key, stale: true) unless query.answered?
        query.keep(reply, :answer, nil) if reply
        query.restored
      end

      # Returns a forwarded question's reply with TTLs less by its age, or nil.
      # @api private
      def cached(key, stale: false)
        found = key && @cache.find(key, stale: stale)
        found && Wire.age(*found)
      end

      # @api private
      def keep(key, reply)
        seconds, negative = Wire.lifetime(reply)
        @cache.store(key, reply, seconds, reply.bytesize, negative: negative) if key
      end

      # @return [Configuration]
      # @api private
      def configuration
        @file&.value
        @configuration
      end

      # @return [Upstream]
      def upstream
        @file&.value
        @upstream
      end

      # Closes connections; later queries open new ones.
      # @return [nil]
      def close = @upstream&.close

      private

      def configure(text, options)
        close
        @cache.clear
        @configuration = Configuration.new(text)
        servers = @configuration.servers.map { |server| @configuration.tcp? ? "tcp://[#{server}]" : server }
        @upstream = Upstream.new(*servers, timeout_s: @configuration.timeout_s, attempts: @configuration.attempts,
                                           rotate: @configuration.rotate?, stay_s: 0, **options)
      end

      # Tries the candidates until one has records. Skips invalid ones, as a search domain may make
      # them. If none has records, raises the first failure, because the failed candidate may have
      # records. Raises immediately if no server answers.
      def search(name, *types)
        failure = nil
        DNS.canonical(name) # raises if no candidate can be valid
        configuration.candidates(name).select { |candidate| DNS.name?(candidate) }.each do |candidate|
          candidate = DNS.canonical(candidate)
          messages = ask(types.map { |type| [candidate, type] })
          found = messages.zip(types).flat_map { |message, type| select(message, candidate, type) }
          return found if found.any?

          failure ||= messages.find { |message| message.is_a?(NoAnswer) }
          break if failure&.silent?
        end
        failure ? raise(failure) : []
      end

      # Formats an address without making a resource, which would take longer than the query.
      def text(data)
        data.bytesize == 4 ? data.unpack("C4").join(".") : Socket.unpack_sockaddr_in([Socket::AF_INET6, 0, 0, data, 0].pack("SnNa16N")).last
      end

      # Follows aliases to the records of a type.
      def select(message, name, type)
        return [] if message.is_a?(NoAnswer)
        return message.answers if type == ANY

        ALIASES_LIMIT.times do
          own = message.answers.select { |record| record.name.casecmp?(name) }
          found = own.select { |record| record.type == type }
          target = own.find { |record| record.type == CNAME }
          return found if found.any? || target.nil?

          name = Wire.text(target.data)
        end
        []
      end

      # Returns a message or a NoAnswer for each question. Waits for questions that other callers
      # are already asking. If such a caller is stopped, asks its questions again.
      def ask(questions)
        found = {}
        until (left = questions - found.keys).empty?
          mine, others = take(left, found)
          found.update(lead(mine)) if mine.any?
          others.each { |question, flight| flight.wait.then { |message| found[question] = message if message } }
        end
        found.values_at(*questions)
      end

      # Returns the questions to ask, and promises for the questions that other callers are asking.
      # A caller that blocks its loop waits for no promise, which the loop's fibers could not
      # resolve.
      def take(questions, found)
        mine, others = [], {}
        @pid, @flights = Process.pid, {} if @pid != Process.pid # a forked child asks by itself
        @lock.synchronize do
          questions.each do |question|
            if (message = @cache[question]) then found[question] = message
            elsif @flights.key?(question) && !blocks_loop? then others[question] = (@flights[question] ||= Promise.new)
            else
              mine << question
              @flights[question] = nil unless @flights.key?(question)
            end
          end
        end
        [mine, others]
      end

      def blocks_loop? = Fiber.scheduler && !Fiber.current_scheduler

      def lead(questions)
        queries = questions.map { |question| Query.ask(*question) }
        queries.each_slice(configuration.single? ? 1 : queries.size) { |some| upstream.exchange(some) }
        messages = questions.zip(queries).to_h { |question, query| [question, read(question, query)] }
      ensure
        promises = @lock.synchronize { questions.map { |question| @flights.delete(question) } }
        promises.zip(questions) { |promise, question| promise&.resolve(messages && messages[question]) }
      end

      def read(question, query)
        message = Message.parse(query.restored) if query.reply
        if message.nil? || Query::FAILURES.include?(message.rcode)
          reason = "the name server failed, #{DNS.rcode_name(message.rcode)}" if message
          return NoAnswer.new("#{question.first}: #{reason || query.failure}", message)
        end

        seconds, negative = Wire.lifetime(query.reply)
        @cache.store(question, message, seconds, query.reply.bytesize * PARSED, negative: negative)
        message
      rescue FormatError => error
        NoAnswer.new("#{question.first}: #{error.message}")
      end
    end
  end
end
