# frozen_string_literal: true

# What a connection and its client say to each other: the first frame and its answer, what is told meanwhile, and the last words.
# The part of Gyre::Log::Connection that knows the protocol; it reads and waits for nothing by itself.

require "gyre/log/server/feed"

module Gyre
  module Log
    # For Connection alone: private methods on its @hub, @input, @link, @transport, @work, @state, @kind.
    module Conversation
      private

      # --- the first frame ---

      def greet(bytes)
        @greeting = (@greeting || String.new(encoding: Encoding::BINARY)) << bytes # a copy; dup would keep the whole buffer that is lent
        case wish = @hub.greeting.read(@greeting)
        when nil then nil
        when String then refuse(wish)
        when :denied then deny
        else grant(wish)
        end
      end

      # At once or late; meanwhile nothing is read from it.
      def deny
        delay_s, message = @hub.greeting.denials.add(@origin&.host, @hub.look_at_clock)
        complain(message) if message
        return linger("denied\n") if delay_s.zero?

        @greeting = nil
        @state = :denied
        @deadline_s = after(delay_s)
      end

      def grant(wish)
        @greeting = nil
        @kind = wish.kind
        @service = wish.service
        @origin = Origin.claimed(wish.words, @origin)
        case @kind
        when :status then linger("#{wish.answer}#{@hub.server.status_line}\n")
        when :reopen then reopen(wish)
        when :tail
          return refuse("too many follow the log already") unless @hub.room_for_tail?

          begin_work(@hub.tail(self, @service))
          @link.write(wish.answer)
        else
          with_session(wish.client_id) do |session|
            begin_work(feed(session))
            @link.write(wish.answer)
            tell
            work_on(wish.rest) unless wish.rest.empty?
            @hub.queues.greet(self, @service) unless closed?
          end
        end
      end

      # Answered when what came before is durable and nothing goes to the former files any more: they may be compressed then.
      def reopen(wish)
        @state = :asking
        @deadline_s = nil
        @entering = ->(done) { linger("#{wish.answer}#{done == :reopened ? "reopened" : "error: not every file could be reopened"}\n") }
        @hub.server.reopen_for(self)
      end

      # At once, or when the outputs have told what they have of the client.
      def with_session(client_id, &work)
        return work.call unless client_id

        @state = :asking
        @deadline_s = nil
        @entering = work
        session = @hub.sessions.find(client_id, self, @service)
        work.call(session) if session
      end

      def answered
        return @hub.brake.park(self) if @hub.held?

        answer, @answer = @answer, false
        answer.is_a?(Exception) ? raise(answer) : @entering.call(answer)
      end

      def feed(session, told = 0, acknowledged = 0)
        session&.acknowledge(acknowledged)
        Feed.new(@hub.stream(@kind, session, @input.framing, (@origin unless @kind == :syslog)), session, told: told)
      end

      # Where a former process left off.
      def go_on(left)
        @bytes = left.fetch("bytes")
        @state = :greeting
        @origin = Origin.new(*left.values_at("host", "pid")) if left["host"]
        kind = left.fetch("kind") or return catch_up(left, "greeting")
        @kind = kind.to_sym
        @service = Handover.unpack(left.fetch("service"))
        with_session(left["client_id"]) do |session|
          begin_work(@kind == :tail ? @hub.tail(self, @service) : feed(session, left["told"], left["acknowledged"]))
          catch_up(left, "rest")
        end
      end

      def catch_up(left, name)
        unsent, rest = left.values_at("unsent", name).map { |text| Handover.unpack(text.to_s) }
        unsent, rest = unsent + rest, "" if @kind == :tail
        @link.write(unsent) unless unsent.empty?
        received(rest) unless rest.empty?
        @bytes = left.fetch("bytes")
      end

      def begin_work(work)
        @work = work
        @state = :serving
        @deadline_s = nil
      end

      # --- writing ---

      def tell
        return unless @work && @link.clear?

        words = @work.due
        close if (words.nil? || @link.write(words)) && @state == :closing && @work.done?
      end

      # All that was to be sent is in the kernel.
      def sent
        @state == :lingering ? @transport.finish : tell
      end

      # --- endings ---

      # The client has said all. Its acknowledgements may be under way still.
      def ended
        case @state
        when :greeting then return refuse("cut off in its first frame", "error: #{Wire::CUT_OFF}\n") if @greeting
        when :serving
          wrong = @work.finish(@hub.time_ns)
          @hub.fed(@work.session)
          return wrong ? refuse(wrong) : close if @work.done? && @link.clear?

          complain(wrong) if wrong
          return @state = :closing
        end
        close
      end

      # The peer broke the protocol or a limit.
      def refuse(message, words = "error: #{message}\n")
        complain(message)
        @kind == :syslog ? close : linger(words) # syslog has no answers
      end

      # The last words. Closing at once would reset the connection under them while the client still sends (RFC 9112 section 9.6).
      def linger(words)
        @work&.finish(@hub.time_ns)
        @greeting = nil
        @state = :lingering
        @deadline_s = after(@hub.limits.linger_timeout_s)
        sent if @link.write(words)
      end

      def expire
        return close if @state == :lingering
        return linger("denied\n") if @state == :denied

        message = "no authentication within #{@hub.limits.authentication_timeout_s} s"
        return refuse(message) if @state == :greeting

        complain(message)
        close
      end

      def after(seconds)
        seconds && (@hub.look_at_clock + seconds)
      end
    end
  end
end
