# frozen_string_literal: true

# POST /profile?seconds=10 on a control socket: lets each process of a server take a profile, and
# merges them. Called by ControlApp.

require "gyre/profile"
require "gyre/run"

module Gyre
  module Web
    class ControlProfile
      SECONDS_LIMIT = 3600

      # `source.profiles(seconds)` returns names of processes with Profile.report of each.
      def initialize(source)
        @source = source
        @lock = Thread::Mutex.new
      end

      # Returns a status and a Hash.
      def call(env)
        seconds = env["QUERY_STRING"].to_s[/\Aseconds=(\d+(?:\.\d+)?)\z/, 1].to_f
        return [400, { error: "seconds must be a number of at most #{SECONDS_LIMIT}" }] unless seconds.positive? && seconds <= SECONDS_LIMIT
        return [409, { error: "another profile is being taken" }] unless @lock.try_lock

        begin
          Profile.check
          answer(while_there(env["gyre.client_gone"]) { @source.profiles(seconds) }.to_a)
        rescue Error => error
          [409, { error: error.message }]
        ensure
          @lock.unlock
        end
      end

      private

      # Stops the block if the client leaves.
      def while_there(client)
        Gyre.run("profile") do |task|
          task.async("client", transient: true) { task.stop if client.wait } if client
          yield
        end
      end

      def answer(reports)
        valid, failed = reports.map { |name, report| [name, read(report)] }.partition { |_, profile| profile.is_a?(Profile) }
        notes = failed.map { |name, reason| "#{name} #{reason}" }
        return [409, { error: notes.empty? ? "no worker serves" : notes.join("; ") }] if valid.empty?

        [200, { profile: Profile.merge(valid.map(&:last)).to_h, processes: valid.size, notes: notes }]
      end

      # Returns the profile, or why there is none.
      def read(report)
        report["error"] || Profile.from(report)
      rescue ArgumentError => error
        "sent #{error.message}"
      end
    end
  end
end
