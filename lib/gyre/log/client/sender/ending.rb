# frozen_string_literal: true

# What a log client's sender does at the end of its thread, also of one that was killed: lets go of the connection and of the threads
# beside it, and stores what is left. Part of Gyre::Log::Sender, in its thread; nothing that fails there keeps it from storing.

module Gyre
  module Log
    class Sender
      # See the head of this file.
      module Ending
        # How long an attempt to connect may hold up the end.
        ATTEMPT_END_S = 1.0
        private_constant :ATTEMPT_END_S

        private

        def leave
          let_go
          return pause if @suspended

          @outbox.attention = true # from here on nothing more comes in
          give_up unless stored?
          @done = @backlog.empty?
          @backlog.close
          @state = :closed
          [@pipe, @waker].each(&:close)
          ProcessHooks.remove(self)
          tell
        end

        # Whatever fails here: the records are stored afterwards. An attempt that nothing interrupts (a name that is looked up) ends by
        # itself, later.
        def let_go
          @attempt&.kill&.join(ATTEMPT_END_S)
          @adoption&.stop
          @link ||= @results.pop.then { |result| result if result.is_a?(Uplink) } until @results.empty?
          drop_link
        rescue StandardError => error
          @settings.report.call("#{error.full_message(highlight: false)}it ends all the same")
        end

        def stored?
          @backlog.store
        rescue StandardError => error
          @error = error
          false
        end

        # What neither the server nor the spool would take.
        def give_up
          tell_of_disk
          count = @backlog.abandon
          @settings.report.call("#{count} messages are lost: #{@error ? @error.message : "the log server was not reached"}") if count.positive?
        end

        # Once for each time that the disk takes no more.
        def tell_of_disk
          trouble = @backlog.trouble
          @settings.report.call("the spool in #{@settings.spool} takes nothing: #{trouble.message}") if trouble && !@told_of_disk
          @told_of_disk = !trouble.nil?
        end
      end
    end
  end
end
