# frozen_string_literal: true

# Serves zones and rules over UDP, TCP and TLS: binds, runs, reloads, counts. The extension receives
# and sends packets, and answers questions about zones. Rules answer all other questions. Handles no
# signals and reads no configuration.
require "gyre/dns/rules"
require "gyre/dns/settings"
require "gyre/dns/sockets"
require "gyre/dns/resolver"
require "gyre/dns/zone_file"

module Gyre
  module DNS
    # Serves until stopped.
    # @param endpoints [Array<String>] as {Server#initialize}
    # @yield the rules, see {Rules}
    # @raise [ArgumentError, SystemCallError, SocketError] see {Server#initialize}
    def self.run(*endpoints, **settings, &rules) = Server.new(*endpoints, **settings, &rules).run

    # A DNS server.
    class Server
      # Maximum questions of a connection that rules handle at a time. Further questions stay
      # unread.
      STREAM_PLACES = 100
      # Maximum answers of a cache, of which cache_bytes usually allows fewer.
      CACHED_LIMIT = 100_000
      UNCACHED = Cache.new.stats.freeze
      # Seconds that a new connection has for its first question when the server drains.
      FIRST_QUESTION_S = 0.25
      private_constant :STREAM_PLACES, :CACHED_LIMIT, :UNCACHED, :FIRST_QUESTION_S

      # Binds the sockets, so that {#run} needs no privileges.
      # @param endpoints [Array<String>] host:port, udp://…, tcp://…, tls://host?cert=PATH&key=PATH
      # @param load [#call, nil] returns {Rules}, also at each {#reload}; nil: evaluates the block
      # @param log [#write, nil] gets a line for each response
      # @param sockets [Sockets, nil] bound sockets instead of endpoints
      # @param settings [Hash] see docs/dns.md
      # @yield the rules
      # @raise [ArgumentError] for a wrong address, setting or zone file
      # @raise [SystemCallError, SocketError] an address cannot be bound
      def initialize(*endpoints, load: nil, log: nil, sockets: nil, **settings, &block)
        @settings = SETTINGS.complete(settings)
        @load = load || -> { Rules.new(&block) }
        @log = log
        @responder = Responder.new(@settings[:rate_limit] || 0)
        @waiting = 0
        @stopped = Promise.new
        @receivers, @streams = [], []
        @open = {}.compare_by_identity # connections
        reload
        @sockets = sockets || Sockets.new(endpoints.flat_map { |given| given.is_a?(Array) && !given.first.is_a?(Symbol) ? given : [given] })
        @sockets.each_stream do |listeners, tls|
          context = TLS.server(**tls, alpn: ["dot"]) if tls
          @streams << Gyre.listen(listeners, tls: context, connections_limit: @settings[:connections_limit])
        end
      rescue StandardError
        close
        raise
      end

      # @return [Array<Endpoint>] the bound addresses
      def endpoints = @sockets.endpoints

      # @return [Integer] the port of the first address
      def port = endpoints.first.port

      # Serves until {#stop}.
      # @param worker [Integer] index of its socket among the UDP sockets of each address
      # @yieldparam server [Server] once it serves
      def run(worker = 0)
        Gyre.run("DNS server") do |task|
          @receivers = @sockets.packets(worker).map do |listener|
            Receiver.new(listener.socket, @responder, (self if @log), @settings[:waiting_limit])
          end
          streams = @streams.map { |server| task.async("DNS over #{server.endpoints.first}") { server.each { |stream| serve(stream) } } }
          yield self if block_given?
          @stopped.wait
        ensure
          streams&.each(&:stop)
          @receivers.each(&:stop)
          close
        end
      end

      # Ends {#run}; unfinished responses are not sent.
      def stop = @stopped.resolve

      # Leaves further questions in the sockets, for another process or {#resume}. Waits until those
      # received are answered, and ends connections after their last answer.
      # @param within_s [Numeric] seconds
      # @return [void]
      def drain(within_s)
        until_s = Clock.now + within_s
        pause(true)
        sleep(FIRST_QUESTION_S) if @open.any?
        @open.each_key { |stream| stream.to_io.shutdown(:RD) rescue nil } # after what has come; its client may be gone
        sleep(0.005) until stats.values_at(:waiting, :connections).sum.zero? || Clock.now > until_s
      end

      # @return [void]
      def resume = pause(false)

      # Reloads rules and zones. On failure the former rules and zones stay in use.
      # @raise [StandardError, ScriptError] raised by the rules or a zone
      def reload
        rules = @load.call
        # Loads in a thread, because a large zone would hold up the loop.
        zones = Offload.call { rules.zones.map { |origin, path| Zone.load(origin, path) } }
        if rules.upstreams.any? && rules.open?
          cache = @cache if @upstream && @upstream.upstream.servers == rules.upstreams.map { |server| ServerAddress.parse(server) }
          cache ||= Cache.new(entries_limit: CACHED_LIMIT, bytes_limit: @settings[:cache_bytes], stale_s: @settings[:stale_s])
          upstream = Resolver.new(*rules.upstreams, hosts: nil, cache: cache)
          rules.otherwise { |transaction| transaction.forward!(upstream) }
        end
        @responder.use(zones, (rules unless rules.empty?), rules.packed_networks)
        @upstream&.close
        @upstream, @cache = upstream, cache
      end

      # Answers a request that did not come through the server's sockets (RFC 8484).
      # @param bytes [String]
      # @param sockaddr [String] the client's struct sockaddr; "": unknown, gets no recursion
      # @return [String, nil] the response; nil if none is due
      def answer(bytes, sockaddr)
        found = @responder.respond(bytes, sockaddr)
        found.is_a?(Transaction) ? ask(found) : log(found, sockaddr)
      end

      # Writes the response's line to the log. Returns the response.
      # @api private
      def log(response, sockaddr)
        return response unless @log && response

        message = Message.parse(response)
        peer = sockaddr.empty? ? "-" : Addrinfo.new(sockaddr).ip_address
        @log.write("#{Time.now.strftime("%FT%T.%3N%z")} #{peer} #{message.questions.first || "-"} #{DNS.rcode_name(message.rcode)} " \
                           "#{message.answers.size}/#{message.authority.size}/#{message.additional.size} #{response.bytesize}\n")
        response
      rescue SystemCallError, IOError, FormatError => error # a full disk loses lines, not responses
        text = "gyre: DNS log: #{error.message}\n"
        $stderr.write(text) unless text == @reported
        @reported = text
        response
      end

      # @return [Hash{Symbol => Integer}] queries:, answers:, malformed:, refused:, dropped:, …
      # @see file:docs/dns.md
      def stats
        { **@responder.counts, **(@cache&.stats || UNCACHED), waiting: @waiting + @receivers.sum(&:waiting),
          connections: @streams.sum { |server| server.stats[:connections] } }
      end

      # @return [String]
      def inspect = "#<#{self.class} #{endpoints.join(", ")}>"

      # Closes the sockets; needed only if the server never ran.
      def close
        @upstream&.close
        @sockets&.close
      end

      private

      def pause(paused) = [*@receivers, *@streams].each { |source| source.paused = paused }

      # Reads requests in order. Sends each response when it is ready (RFC 7766, section 6.2.1.1).
      def serve(stream)
        stream.read_timeout_s = @settings[:idle_timeout_s]
        stream.write_timeout_s = @settings[:idle_timeout_s]
        sockaddr = stream.to_io.remote_address.to_sockaddr
        @open[stream] = true
        places = Semaphore.new(STREAM_PLACES)
        Gyre.run do # ends after the last of its rules
          while (head = stream.read(2)) && head.bytesize == 2
            bytes = stream.read_exactly(head.unpack1("n"))
            found = @responder.respond(bytes, sockaddr)
            break if found.nil? # the bytes are not a request: none will follow
            next reply(stream, log(found, sockaddr)) if found.is_a?(String)

            places.async("rule") { answer_later(stream, found) }
          end
        rescue Gyre::TimeoutError, TLS::Truncated
          nil # the client sends no more questions
        end
      rescue IOError, Errno::ENOTCONN, Errno::ECONNRESET
        nil # the client is gone
      ensure
        @open.delete(stream)
      end

      def answer_later(stream, transaction)
        ask(transaction)&.then { |response| reply(stream, response) }
      rescue SystemCallError, IOError, Gyre::TimeoutError, TLS::Error
        stream.abandon # the client is gone, or reads nothing
      end

      # Runs the rules. Returns the response, or nil if waiting_limit is reached.
      def ask(transaction)
        return @responder.overload if @waiting >= @settings[:waiting_limit]

        begin
          @waiting += 1
          log(transaction.rules.call(transaction) || transaction.encode, transaction.sockaddr)
        ensure
          @waiting -= 1
        end
      end

      def reply(stream, response) = stream.write([response.bytesize].pack("n") << response)
    end
  end
end
