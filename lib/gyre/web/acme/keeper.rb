# frozen_string_literal: true

# Orders and renews the certificates of a Store, one for each name. A task of the supervisor, or of
# a server without workers; begins once they serve. Handshakes never wait for it.

require "gyre/web/acme/authority"
require "gyre/web/acme/store"
require "timeout"

module Gyre
  module Web
    module ACME
      class Keeper
        TICK_S = 10
        # Seconds after the first failure, the second, …; kept on disk.
        BACKOFF_S = [60, 600, 6000, 86_400].freeze
        # Least seconds between two certificates of a name, whatever the authority suggests.
        PAUSE_S = 3600
        # Most seconds that an authority may ask to wait.
        REST_S = 8 * Authority::DAY_S
        # Most seconds until a TXT record is set.
        HOOK_S = 900
        # A certificate of fewer seconds is renewed at half its lifetime.
        SHORT_S = 10 * Authority::DAY_S

        # Calls `changed` when the store has a new certificate, also of another process.
        # `settings`: of Serve. `plain`: whether the server takes plain requests, else authorities
        # validate over https. `tls`: see HTTP::Client.
        def initialize(settings, log:, plain: true, tls: nil, &changed)
          @store, @directory, @profile, binding = settings.values_at(:certificates, :acme_directory, :acme_profile, :acme_eab)
          @log = log
          @options = { challenge: challenge(settings[:dns_challenge], plain), binding: binding, tls: tls }
          @changed = changed
          @stamp = @store.stamp
        end

        # Begins its tasks; returns self.
        def start(task)
          task.async("first certificates", transient: true) { look }
          task.every(TICK_S, "certificates") { look }
          self
        end

        # Does what is due, unless another process does it.
        def look
          @store.lock { @store.names.each { |name| attend(name) } }
          tell
        rescue StandardError => error
          @log.error("acme: #{error.message} (#{error.class})")
        end

        # Orders at once what is missing or has failed; if nothing is, orders everything. Returns
        # nil, or why it failed.
        def renew
          names = @store.names.select { |name| @store.certificate(name).nil? || @store.state(name)["error"] }
          names = @store.names if names.empty?
          alone = @store.lock { names.each { |name| attend(name, now: true) } }
          tell
          return "another process orders certificates just now" unless alone

          names.filter_map { |name| @store.state(name)["error"]&.then { |error| "#{name}: #{error}" } }.first
        rescue SystemCallError => error # of the folder
          error.message
        end

        # Returns for each name when its certificate expires, or nil, and why the last order failed.
        def status
          @store.names.map do |name|
            { name: name, expires: @store.certificate(name)&.not_after&.to_i, error: @store.state(name)["error"] }
          end
        end

        private

        # Returns a challenge for Authority. Every server with the account's key answers http-01,
        # every server with the folder tls-alpn-01.
        def challenge(hook, plain)
          return plain ? ["http-01", ->(*) {}] : ["tls-alpn-01", @store.method(:challenge)] unless hook

          ["dns-01", lambda do |name, proof, wanted|
            text = Key.base64(Digest::SHA256.digest(proof)) # RFC 8555, section 8.4
            Timeout.timeout(HOOK_S) { hook.call("_acme-challenge.#{name}", text, wanted) }
          rescue StandardError => error
            raise Refused, "dns_challenge: #{error.message} (#{error.class})" if wanted

            @log.error("acme: dns_challenge leaves a record of #{name}: #{error.message} (#{error.class})")
          end]
        end

        def tell
          stamp = @store.stamp
          return if stamp == @stamp

          @stamp = stamp
          @changed.call
        end

        # Asks and orders. Counts an attempt as failed before it begins, so that a process that is
        # killed each time waits longer, too.
        def attend(name, now: false)
          state = @store.state(name)
          current = @store.certificate(name)
          return if !now && rests?(state) && (current || state["failures"])

          failures = state["failures"].to_i + 1
          wait_s = (BACKOFF_S[failures - 1] || BACKOFF_S.last) * rand(1.0..1.1)
          keep(name, { **state, "failures" => failures, "next_at" => Time.now.to_f + wait_s })
          authority = Authority.new(@directory, @store.key, **@options)
          @log.error("acme: this machine's clock is wrong by #{-authority.skew_s.round} s") unless authority.skew_s.zero?
          left_s, again_s = left(authority, current)
          return keep(name, "next_at" => Time.now.to_f + [left_s, again_s].min) if left_s.positive? && !now

          @store.write("#{name}.pem", authority.order(name, profile: @profile, former: current))
          keep(name, "next_at" => Time.now.to_f + PAUSE_S)
          @log.info("acme: #{name} has a certificate until #{@store.certificate(name).not_after.utc}")
        rescue StandardError => error
          failed(name, error)
        ensure
          authority&.close
        end

        # A time too far ahead was set by a wrong clock.
        def rests?(state) = (0..REST_S).cover?(state["next_at"].to_f - Time.now.to_f)

        # Returns the seconds until the renewal, with a third of the lifetime left at the latest,
        # and until the next question.
        def left(authority, current)
          return [0, 0] unless current

          lifetime = current.not_after - current.not_before
          latest = current.not_after.to_f - (lifetime / (lifetime < SHORT_S ? 2 : 3))
          suggested, again_s = suggestion(authority, current)
          [[suggested, latest].compact.min - Time.now.to_f - authority.skew_s, again_s || Authority::AGAIN_S]
        end

        # A question that fails delays no renewal.
        def suggestion(authority, current)
          authority.suggestion(current)
        rescue StandardError => error
          @log.error("acme: the authority suggests no time of renewal: #{error.message}")
          nil
        end

        def failed(name, error)
          state = @store.state(name)
          wait_s = [state["next_at"].to_f - Time.now.to_f, error.is_a?(Refused) ? error.retry_after_s.to_f : 0].max.clamp(0, REST_S)
          clock = "; is this machine's clock right? It says #{Time.now.utc}" if error.message.match?(/certificate (has expired|is not yet valid)/)
          keep(name, { **state, "next_at" => Time.now.to_f + wait_s, "error" => "#{error.message}#{clock}" })
          @log.error("acme: #{name}: #{error.message}#{clock}; the next try is in #{wait_s.round} s")
        end

        def keep(name, state) = @store.write("#{name}.json", JSON.generate(state))
      end
    end
  end
end
