# frozen_string_literal: true

# What a log client's sender does without a connection: has one made, in a thread of its own since names and handshakes may take
# long, and moves what is logged to the spool. Part of Gyre::Log::Sender, in its thread.

module Gyre
  module Log
    class Sender
      # See the head of this file.
      module Away
        # How soon a full disk is tried again.
        DISK_RETRY_S = 1.0
        private_constant :DISK_RETRY_S

        private

        def stay_away
          connect
          return if @link

          stored = graceful? || !@backlog.spools? || @backlog.store
          @full = !stored || (!@backlog.spools? && !graceful?)
          tell_of_disk
          drop_oldest if @full && @drop
          tell
          wait_away(stored)
        end

        # What is not acknowledged is sent again under a fresh id: stored twice perhaps, but not lost.
        def change_identity(error)
          @identity = Identity.fresh
          @backlog.identify(@identity)
          @settings.report.call("#{error.message}: what it has not acknowledged is sent under a fresh one")
        end

        def drop_oldest
          @drop = false
          @backlog.drop_oldest
        end

        # Whether records may stay in memory for a moment.
        def graceful?
          @failures.zero? && Uplink.now < @graceful_until && @outbox.bytesize < @settings.memory_limit / 2
        end

        def connect
          result = @results.pop(true) unless @results.empty?
          @attempt = nil if result
          case result
          when Uplink then connected(result)
          when Exception
            tell_of_tls(result) if result.is_a?(OpenSSL::SSL::SSLError)
            raise result
          when nil then attempt if @attempt.nil? && (@hurry || Uplink.now >= @retry_at)
          end
        end

        # No server has gone then: a certificate is wrong, or something else that does not mend itself.
        def tell_of_tls(error)
          tell_once("#{@settings.address}: TLS: #{error.message}; what is logged waits, and it is tried again")
        end

        def attempt
          @hurry = false
          settings, identity, adopted, results = @settings, (@identity if @settings.acknowledged), @adopting, @results
          @attempt = Thread.new do
            results << mortal { Uplink.open(settings.address, identity, old: settings.acknowledged != true, adopted: adopted) }
          rescue *FAULTS => error
            results << error
          ensure
            wake
          end
          @attempt.name = "gyre log connect"
        end

        def connected(link)
          @link = link
          @reconnects += 1 if @connected_at
          @connected_at = Uplink.now
          @refusal = nil
          @full = false
          @outbox.attention = false unless @closing_at
          @stalled_from = Uplink.now
          @failures = 0 unless link.acknowledges? && @backlog.any?
          @outbox.framed = !link.acknowledges?
          @state = :connected
          adopt
        end

        def wait_away(stored)
          return if finished?

          now = Uplink.now
          moments = [closing_left]
          moments << @retry_at - now unless @attempt
          moments << @graceful_until - now if (graceful = graceful?)
          moments << DISK_RETRY_S unless stored
          return if stored && !graceful && @backlog.spools? && !@outbox.await

          doze([], nil, moments.compact.min)
        end
      end
    end
  end
end
