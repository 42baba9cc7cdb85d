# frozen_string_literal: true

# bench/dns: answers from a Ruby block and from a zone, queries passed on, answers that wait, by
# dnsperf; and names resolved at once by each library, in a fresh process on one core.

require "json"
require_relative "child"
require_relative "dns_servers"
require_relative "suite"

module Bench
  # DNS servers and resolvers.
  class DNSSuite < Suite
    LABELS = {
      "gyre-zone" => "Gyre, a zone", "gyre-block" => "Gyre, a Ruby block", "rubydns-block" => "RubyDNS, a Ruby block",
      "dnsmasq" => "dnsmasq, a hosts file", "nsd" => "nsd, a zone",
      "gyre-zones" => "Gyre", "nsd-zones" => "nsd",
      "gyre-forwarder" => "Gyre", "dnsmasq-forwarder" => "dnsmasq", "unbound-forwarder" => "unbound",
      "gyre-passthrough" => "Gyre", "rubydns-passthrough" => "RubyDNS", "dnsmasq-passthrough" => "dnsmasq",
      "gyre-waiting" => "Gyre", "rubydns-waiting" => "RubyDNS",
      "gyre" => "Gyre's resolver", "gyre-names" => "getaddrinfo in Gyre's tasks, by its resolver",
      "gyre-getaddrinfo" => "getaddrinfo in Gyre's tasks, by its threads",
      "async-dns" => "async-dns", "resolv" => "Resolv, 100 threads", "getaddrinfo" => "getaddrinfo, 100 threads"
    }.freeze

    # Answers as fast as they come.
    class Answers < Scenario
      def initialize(key, title, subjects, queries: "queries", forwards: false)
        super(key, "#{title}, 100 queries under way", subjects: subjects,
              columns: [Column.new("answers/s", :answers_per_s, 0), Column.new("server CPU, µs an answer", :cpu_us, 2), Column.new("lost", :lost, 0),
                        Column.new("RSS, MB", :rss_mb, 1)])
        @queries = queries
        @forwards = forwards
      end

      def measure(subject, settings)
        @upstream ||= DNSServers.start("nsd", core: LOAD_CORE) if @forwards
        server = DNSServers.start(subject, *@upstream&.port&.to_s)
        run(server, [settings[:seconds] / 2, 1].max)
        before_s = server.tree.cpu_s
        result = run(server, settings[:seconds])
        { answers_per_s: result[:answers] / result[:seconds], cpu_us: (server.tree.cpu_s - before_s) / result[:answers] * 1e6,
          lost: result[:lost], rss_mb: server.tree.rss_kb / 1024.0 }
      ensure
        server&.stop
      end

      def finish
        @upstream&.stop
        @upstream = nil
      end

      private

      def run(server, seconds) = DNSServers.load(server.port, "-l", seconds.to_s, "-c", "16", "-q", "100", "-t", "1", queries: @queries)
    end

    # Passes queries on to nsd, at a fixed rate.
    class Passthrough < Scenario
      RATE = 20_000

      def initialize
        super("passthrough", "#{RATE} queries/s passed on to nsd, which shares the load's core",
              subjects: %w[gyre-passthrough rubydns-passthrough dnsmasq-passthrough],
              columns: [Column.new("answers/s", :answers_per_s, 0), Column.new("median, ms", :median_ms, 2), Column.new("p99, ms", :p99_ms, 2),
                        Column.new("lost", :lost, 0), Column.new("server CPU, µs an answer", :cpu_us, 2)])
      end

      def measure(subject, settings)
        @upstream ||= DNSServers.start("nsd", core: LOAD_CORE)
        server = DNSServers.start(subject, @upstream.port.to_s)
        run(server, 1, RATE / 4)
        before_s = server.tree.cpu_s
        result = run(server, settings[:seconds], RATE)
        times = result[:output].scan(/^> NOERROR .* ([\d.]+)$/).map { |(time)| time.to_f * 1000 }.sort
        { answers_per_s: result[:answers] / result[:seconds], median_ms: times[times.size / 2], p99_ms: times[times.size * 99 / 100],
          lost: result[:lost], cpu_us: (server.tree.cpu_s - before_s) / result[:answers] * 1e6 }
      ensure
        server&.stop
      end

      def finish
        @upstream&.stop
        @upstream = nil
      end

      private

      def run(server, seconds, rate)
        DNSServers.load(server.port, "-v", "-l", seconds.to_s, "-c", "16", "-q", "250", "-Q", rate.to_s, "-t", "2") # what a UDP socket holds
      end
    end

    # Answers that each wait for 100 ms, many at once: over TCP, as the kernel drops what UDP brings
    # at once.
    class Waiting < Scenario
      COUNT = 10_000
      CONNECTIONS = 100

      def initialize
        super("waiting", "#{COUNT} queries under way on #{CONNECTIONS} TCP connections, to a rule that waits for 100 ms",
              subjects: %w[gyre-waiting rubydns-waiting],
              columns: [Column.new("answers/s", :answers_per_s, 0), Column.new("lost", :lost, 0), Column.new("server CPU, µs an answer", :cpu_us, 2),
                        Column.new("RSS before, MB", :before_mb, 1), Column.new("RSS after, MB", :rss_mb, 1),
                        Column.new("after twice as many, MB", :later_mb, 1)])
      end

      def measure(subject, settings)
        server = DNSServers.start(subject)
        before_mb = server.tree.rss_kb / 1024.0
        before_s = server.tree.cpu_s
        result = run(server, settings[:seconds])
        cpu_us = (server.tree.cpu_s - before_s) / result[:answers] * 1e6
        rss_mb = server.tree.rss_kb / 1024.0
        run(server, settings[:seconds])
        { answers_per_s: result[:answers] / result[:seconds], lost: result[:lost], cpu_us: cpu_us, before_mb: before_mb, rss_mb: rss_mb,
          later_mb: (later_mb = server.tree.rss_kb / 1024.0), growth: later_mb / rss_mb }
      ensure
        server&.stop
      end

      private

      def run(server, seconds)
        DNSServers.load(server.port, "-m", "tcp", "-l", seconds.to_s, "-c", CONNECTIONS.to_s, "-q", COUNT.to_s, "-t", "20")
      end
    end

    # Names resolved in a process whose resolv.conf names nsd on this machine.
    class Names < Scenario
      COUNT = 1000
      ADDRESS = "127.0.0.53"
      LIMIT_S = 60

      def initialize
        super("names", "#{COUNT} names resolved at once, IPv4 and IPv6, by nsd",
              subjects: %w[gyre gyre-names gyre-getaddrinfo async-dns resolv getaddrinfo],
              columns: [Column.new("milliseconds", :wall_ms, 1), Column.new("client CPU, µs a name", :cpu_us, 1)])
      end

      def measure(subject, _settings)
        raise Problem, "needs root: its process has a resolv.conf of its own" unless Process.uid.zero?

        serve
        child = Setup.ruby_command(File.join(__dir__, "resolve_child.rb"), subject, COUNT.to_s)
        text = Child.output(Setup.gem_environment.merge(Setup.yjit_environment), "unshare", "--mount", "sh", "-c",
                            'mount --bind "$0" /etc/resolv.conf && exec "$@"', DNSServers.path("resolv.conf"), *child, limit_s: LIMIT_S)
        result = JSON.parse(text.lines.last, symbolize_names: true)
        { wall_ms: result[:wall_s] * 1000, cpu_us: result[:cpu_s] / COUNT * 1e6 }
      end

      def finish
        @server&.stop
        @server = nil
      end

      private

      def serve
        @server ||= DNSServers.start("nsd", ADDRESS, core: LOAD_CORE)
        File.write(DNSServers.path("resolv.conf"), "nameserver #{ADDRESS}\n")
      end
    end

    SCENARIOS = [
      Answers.new("answers", "Answers from memory: A records of #{DNSServers::NAMES} names", %w[gyre-zone gyre-block rubydns-block dnsmasq nsd]),
      Answers.new("zones", "Answers from #{DNSServers::ZONES} zones", %w[gyre-zones nsd-zones], queries: "queries-of-zones"),
      Answers.new("forwarder", "A warm forwarder: #{DNSServers::NAMES} names, asked before", %w[gyre-forwarder dnsmasq-forwarder unbound-forwarder],
                  forwards: true),
      Passthrough.new, Waiting.new, Names.new
    ].freeze

    def name = "dns"
    def title = "DNS: Gyre, RubyDNS, dnsmasq, nsd, and resolvers"
    def cores = "The server, or the resolving process, on one core; dnsperf, and the resolvers' server, on the other."
    def scenarios = SCENARIOS
    def subject_option = "subjects"
    def labels = LABELS
    def programs(_subjects) = %w[taskset dnsperf dnsmasq nsd unbound unshare]

    def versions(_subjects)
      debian = { "dnsmasq" => %w[dnsmasq --version], "nsd" => %w[nsd -v], "unbound" => %w[unbound -V] }.transform_values do |program, flag|
        Open3.capture2e(Setup.program(program), flag).first[/\d+\.\d+[.\d]*/]
      end
      { "gyre" => Machine.gyre, **debian }.merge(Setup.gem_versions.slice("rubydns", "async-dns", "async"))
    end

    def about(settings)
      ["#{Gyre::Units.count(settings[:rounds], 'round')} of #{settings[:seconds]} s, subjects taking turns, a fresh process each time; " \
       "cells are medians (lowest–highest round).",
       "Each answer's code is checked. dnsmasq and nsd run as they are, nsd with one server process and without its limit of rate."]
    end

    def targets
      [
        ratio("a Ruby block: answers/s against RubyDNS", :at_least, 5, "answers", :answers_per_s, "gyre-block", "rubydns-block"),
        ratio("a Ruby block: CPU time against nsd", :at_most, 1.15, "answers", :cpu_us, "gyre-block", "nsd"),
        ratio("a zone: CPU time against nsd", :at_most, 0.95, "answers", :cpu_us, "gyre-zone", "nsd"),
        ratio("#{DNSServers::ZONES} zones: CPU time against nsd", :at_most, 1.15, "zones", :cpu_us, "gyre-zones", "nsd-zones"),
        *%w[dnsmasq unbound].map do |other|
          ratio("a warm forwarder: answers/s against #{other}", :at_least, 1, "forwarder", :answers_per_s, "gyre-forwarder", "#{other}-forwarder")
        end,
        figure("passed on at #{Passthrough::RATE}/s: p99", :at_most, 5, " ms", 2, "passthrough", :p99_ms, subject: "gyre-passthrough", pick: :max),
        figure("passed on at #{Passthrough::RATE}/s: answers/s", :at_least, Passthrough::RATE * 0.99, "", 0, "passthrough", :answers_per_s,
               subject: "gyre-passthrough", pick: :min),
        figure("waiting: memory after twice as many, against once", :at_most, 1.1, " ×", 2, "waiting", :growth, subject: "gyre-waiting"),
        *%w[resolv async-dns getaddrinfo].map do |other|
          ratio("1,000 names at once: times faster than #{LABELS.fetch(other)}", :at_least, 1, "names", :wall_ms, other, "gyre")
        end
      ]
    end
  end
end
