# frozen_string_literal: true

# Reads the system's resolver settings from resolv.conf(5), nsswitch.conf(5) and hosts(5). Used by
# Gyre::DNS::Resolver, and by SystemNames to tell whether getaddrinfo(3) would agree.

require "resolv"
require "socket"
require "gyre/clock"

module Gyre
  module DNS
    # Settings of resolv.conf. Immutable.
    class Configuration
      # glibc's limits (resolv.h): glibc ignores further servers and reduces larger numbers.
      SERVERS_LIMIT = 3
      NUMBERS = { "ndots" => [:ndots, 15], "timeout" => [:timeout_s, 30], "attempts" => [:attempts, 5] }.freeze
      # Options that this class does not support.
      INEXACT = /\A(?:no-aaaa|no-tld-query|no-check-names)\z/.freeze
      # Environment variables that this class does not support.
      VARIABLES = %w[LOCALDOMAIN RES_OPTIONS HOSTALIASES].freeze
      private_constant :SERVERS_LIMIT, :NUMBERS, :INEXACT, :VARIABLES

      # @return [Array<String>] IP addresses of servers
      attr_reader :servers
      # @return [Array<String>] domains
      attr_reader :search
      # @return [Integer] minimum dots of a name that is tried without search domains first
      attr_reader :ndots
      # @return [Integer] seconds to wait for a server
      attr_reader :timeout_s
      # @return [Integer] rounds over all servers
      attr_reader :attempts

      # Default server: this machine. Default search domain: the domain of the host name.
      # @param text [String] of resolv.conf
      # @param host_name [String] this machine's
      def initialize(text, host_name: Socket.gethostname)
        @servers, @search = [], nil
        @ndots, @timeout_s, @attempts = 1, 5, 2
        @rotate = @tcp = @single = false
        @exact = true
        text.each_line { |line| read(*line.sub(/\A[#;].*/m, "").split) }
        @servers = ["127.0.0.1"] if @servers.empty?
        @search ||= [host_name[/\.(.+)/, 1]].compact
        freeze
      end

      # @return [Boolean] whether queries begin with different servers
      def rotate? = @rotate

      # @return [Boolean] whether queries use TCP first
      def tcp? = @tcp

      # @return [Boolean] whether each query waits for the one before it, and has a port of its own
      def single? = @single

      # @param environment [Hash{String => String}]
      # @return [Boolean] whether all settings are supported here
      def exact?(environment = ENV) = @exact && VARIABLES.none? { |name| environment.key?(name) }

      # Returns the names to try, in their order (resolv.conf(5), "search" and "ndots"). Some may be
      # invalid.
      # @param name [String]
      # @return [Array<String>]
      def candidates(name)
        return [name.delete_suffix(".")] if name.end_with?(".")

        searched = @search.map { |domain| "#{name}.#{domain}".sub(/\.+\z/, "") }
        (name.count(".") >= @ndots ? [name, *searched] : [*searched, name]).uniq
      end

      # @param text [String] of nsswitch.conf
      # @return [Boolean] whether names are looked up in the hosts file, then DNS, and nowhere else
      def self.plain_order?(text) = text[/^\s*hosts:([^#\n]*)/, 1].to_s.split == %w[files dns]

      private

      def read(keyword = nil, *words)
        case keyword
        when "nameserver" then @servers << words.first if words.first.to_s.match?(Resolv::AddressRegex) && @servers.size < SERVERS_LIMIT
        when "search" then @search = words
        when "domain" then @search = words.take(1)
        when "options" then words.each { |word| set(*word.split(":", 2)) }
        when "sortlist" then @exact = false
        end
      end

      def set(name, value = nil)
        variable, limit = NUMBERS[name]
        if variable
          instance_variable_set("@#{variable}", value.to_i.clamp(variable == :ndots ? 0 : 1, limit)) if value.to_s.match?(/\A\d/)
        elsif name == "rotate" then @rotate = true
        elsif name == "use-vc" then @tcp = true
        elsif name.match?(/\Asingle-request(?:-reopen)?\z/) then @single = true
        elsif name.match?(INEXACT) then @exact = false
        end
      end
    end

    # Parses the text of hosts(5). Ignores lines that do not begin with an address, as glibc does.
    # @return [Hash{String => Array<String>}] addresses by lower-case name
    # @api private
    def self.hosts(text)
      text.each_line.with_object({}) do |line, hosts|
        address, *names = line.scrub.sub(/#.*/m, "").split
        names.each { |name| (hosts[name.downcase] ||= []).push(address).uniq! } if address&.match?(Resolv::AddressRegex)
      end
    end

    # A file of system settings, parsed again when it changes. Calls stat(2) at most once a second.
    #
    # @api private
    class WatchedFile
      CHECK_S = 1

      # The block parses the file's text, or "" if the file is missing.
      def initialize(path, &parse)
        @path = path
        @parse = parse
        @due_s = @state = nil
      end

      # Does not wait for another thread or fiber: the first callers parse the file each.
      def value
        return @value if @due_s && Clock.now < @due_s

        @due_s &&= Clock.now + CHECK_S
        state = (File.stat(@path).then { |stat| [stat.dev, stat.ino, stat.size, stat.mtime] } rescue []) # without a file
        @value, @state = @parse.call((File.binread(@path) rescue "")), state unless state == @state
        @due_s ||= Clock.now + CHECK_S
        @value
      end
    end
  end
end
