# frozen_string_literal: true

# bench/log: which figures the log server and its client are to reach, and how its results file
# reads.

require_relative "log_scenarios"
require_relative "suite"

module Bench
  # Log servers and clients.
  class LogSuite < Suite
    WIRE = %w[wire-10-1 wire-10-200 wire-100-1 wire-100-200].freeze
    CLIENT = %w[client-10-100k client-10-1000k client-100-100k client-100-1000k].freeze
    ACKNOWLEDGED = %w[acknowledged-10-1 acknowledged-10-200 acknowledged-100-1 acknowledged-100-200].freeze

    def name = "log"
    def title = "Log servers and clients: Gyre, Analogger and rsyslog"
    def cores = "The server on one core, the load on the other."
    def scenarios = LogScenarios::ALL
    def subject_option = "subjects"
    def labels = LogServer::NAMES.merge("gyre-acknowledged" => "Gyre, acknowledged")
    def row_heading = ""
    def defaults = { rounds: 3, scale: 1.0 }
    def quick = { rounds: 1, scale: 0.1 }
    def programs(_subjects) = %w[taskset cc]

    def available(subjects)
      Setup.programs("rsyslogd")
      subjects
    rescue Problem => e
      warn "bench: WITHOUT rsyslog: #{e.message}"
      subjects.grep_v(/rsyslog/)
    end

    def versions(subjects)
      rsyslog = subjects.grep(/rsyslog/).any? ? { "rsyslog" => LogServer.rsyslog_version } : {}
      { "gyre" => Machine.gyre }.merge(Setup.gem_versions.slice("analogger", "eventmachine"), rsyslog)
    end

    def about(settings)
      ["#{Gyre::Units.count(settings[:rounds], 'round')}, subjects taking turns, a fresh server each time; cells are medians (lowest–highest round).",
       "All messages of a sample differ, and each sample's file was compared with what was sent: every line was there once, as it was."]
    end

    def targets
      [
        *WIRE.map { |key| against(key, :written_per_s, "analogger", :at_least, 10, "rate to the file against Analogger's") },
        *WIRE.map { |key| against(key, :synced_per_s, "analogger", :at_least, 10, "rate with fdatasync against Analogger's") },
        *WIRE.product(%w[rsyslog rsyslog-tuned]).map do |key, other|
          against(key, :cpu_us, other, :at_most, 1.5, "server CPU a message against #{labels[other]}")
        end,
        *CLIENT.map { |key| against(key, :flushed_per_s, "analogger", :at_least, 3, "client's rate until flushed against Analogger's") },
        *ACKNOWLEDGED.map { |key| acknowledged(key) },
        ratio("#{CLIENT.last}: acknowledged client against unacknowledged", :at_least, 0.5, CLIENT.last, :flushed_per_s,
              "gyre-acknowledged", "gyre"),
        *%w[rfc5424-lines rfc5424-octets].map do |key|
          figure("#{key}: messages in the file", :at_least, 500_000, "/s", 0, key, :written_per_s)
        end,
        figure("trickle: p99 from send to file, interval 1 s", :at_most, 2000, " ms", 0, "trickle", :p99_ms),
        figure("trickle: p99 from send to file, interval 0.1 s", :at_most, 200, " ms", 0, "trickle", :p99_ms, subject: "gyre-0.1"),
        *%w[gyre gyre-0.1].map { |subject| growth(subject) }
      ]
    end

    private

    def against(key, metric, other, direction, limit, text)
      ratio("#{key}: #{text}", direction, limit, key, metric, "gyre", other)
    end

    # The last acknowledgement of the one against the last line of the other, in the same rounds.
    def acknowledged(key)
      Target.new(text: "#{key}: acknowledged against unacknowledged in the file", direction: :at_least, limit: 0.5, unit: " ×", decimals: 2,
                 measure: lambda { |results|
                   quotient(results.values(key, "gyre-acknowledged", :acknowledged_per_s), results.values(key, "gyre", :written_per_s))
                 })
    end

    def growth(subject)
      Target.new(text: "trickle: RSS in the last third against the second, #{labels[subject]}", direction: :at_most, limit: 1.05, unit: " ×",
                 decimals: 2, measure: lambda { |results|
                   quotient(*%i[rss_late_mb rss_middle_mb].map { |metric| results.values("trickle", subject, metric) })
                 })
    end

    def quotient(values, others)
      Results.median(values.zip(others).reject { |pair| pair.any?(&:nil?) }.map { |one, other| one / other })
    end
  end
end
