# frozen_string_literal: true

# POST /profile?seconds=10 on a control socket: lets each process of a server take a profile, and
# merges them. A command of ControlApp.

require "gyre/profile"
require "gyre/run"
require "gyre/web/control/server"

module Gyre
  module Web
    class ControlProfile
      SECONDS_LIMIT = 3600
      # Seconds that a process has for its answer beyond the profile's.
      GRACE_S = 10

      # Of a server without workers.
      def self.alone = new { |seconds| [["the server", { "value" => Profile.take { sleep(seconds) }.to_h }]] }

      # `crew`: a Gyre::Cluster::Crew.
      def self.of(crew) = new { |seconds| crew.ask("profile", seconds, timeout_s: seconds + GRACE_S) }

      # The block returns what Crew#ask does: names of processes with the answer of each.
      def initialize(&ask)
        @ask = ask
        @lock = Thread::Mutex.new
      end

      # Returns a ControlResult.
      def call(env)
        seconds = env["QUERY_STRING"].to_s[/\Aseconds=(\d+(?:\.\d+)?)\z/, 1].to_f
        return ControlResult.failed("seconds must be a number of at most #{SECONDS_LIMIT}", 400) unless seconds.positive? && seconds <= SECONDS_LIMIT
        return ControlResult.failed("another profile is being taken") unless @lock.try_lock

        begin
          Profile.check
          merge(while_there(env["gyre.client_gone"]) { @ask.call(seconds) }.to_a)
        rescue Error => error
          ControlResult.failed(error.message)
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

      def merge(answers)
        valid, failed = answers.map { |name, answer| [name, read(answer)] }.partition { |_, profile| profile.is_a?(Profile) }
        notes = failed.map { |name, reason| "#{name} #{reason}" }
        return ControlResult.failed(notes.empty? ? "no worker serves" : notes.join("; ")) if valid.empty?

        ControlResult.new(200, { profile: Profile.merge(valid.map(&:last)).to_h, processes: valid.size, notes: notes })
      end

      # Returns the profile, or why there is none.
      def read(answer)
        answer["error"] || Profile.from(answer["value"])
      rescue ArgumentError => error
        "sent #{error.message}"
      end
    end
  end
end
