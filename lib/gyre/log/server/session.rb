# frozen_string_literal: true

# An acknowledged client across its connections: how far its records have come and how far they are
# durable. Sessions is the table of them. Connections look theirs up, the committer acknowledges.
# Without sockets.

require "gyre/task"

module Gyre
  module Log
    # One client id. It outlives its connections, so that what is under way when one breaks is
    # acknowledged on the next.
    class Session
      # @return [String] 32 hexadecimal digits
      attr_reader :client_id
      # @return [Ingest::Session] the ingest's
      attr_reader :intake
      # @return [Integer] everything up to this sequence number is durable
      attr_reader :acknowledged
      # @return [Connection, nil] where the client is at present
      attr_accessor :connection

      # @param intake [#received, #durable, #stored, #client_id] the ingest's session
      def initialize(intake)
        @intake = intake
        @client_id = -intake.client_id
        @acknowledged = 0
        @connection = nil
      end

      # @return [Integer] the highest sequence number that has come
      def received = @intake.received

      # A sink's output has stored the client's records up to there. Called by the committer, in a
      # task of its own.
      def stored(sink, sequence) = @intake.stored(sink, sequence)

      # Acknowledges what is durable. Called by the committer.
      def settle = acknowledge(@intake.durable)

      # Everything up to here is durable.
      #
      # @param sequence [Integer]
      def acknowledge(sequence)
        return unless sequence > @acknowledged

        @acknowledged = sequence
        @connection&.acknowledged
      end

      # @return [Boolean] whether a record came for an output of which it was unknown what it has
      def refused? = @intake.refused?

      # @return [Boolean] whether something has come that is not durable yet
      def pending? = received > @acknowledged
    end

    # All sessions of a server, by client id.
    class Sessions
      include Enumerable

      # What the outputs have of a client is being looked up, for this connection.
      Lookup = Struct.new(:connection, :service, :task)
      private_constant :Lookup

      # @param limit [Integer] how many without a connection are remembered; the outputs have them
      #   all the same
      # @param shared [#call] whether clients of a service may have been at other servers between
      #   two connections: one is looked up again each time, in a task of its own, for that may take
      #   long
      # @param stored [#call] given a client's id and its service (nil: any), what each sink's
      #   output has stored of it
      # @yieldparam client_id [String]
      # @yieldparam stored [Hash{Sink => Integer, nil}]
      # @yieldreturn [#received, #client_id] a session of the ingest
      def initialize(limit, shared: ->(_) { false }, stored: ->(*) {}, &open)
        @limit = limit
        @shared = shared
        @stored = stored
        @open = open
        @sessions = {}
        @lookups = {} # by client id
      end

      # A client has connected. Where it is still connected, the former connection is replaced.
      #
      # @param client_id [String]
      # @param connection [#completed, #replaced] the session's from now on
      # @param service [String, nil] that its records have, as far as that is known
      # @return [Session, nil] nil: `completed` is called with it later, or with the exception that
      #   came instead
      # @raise [Output::Unavailable]
      def find(client_id, connection, service = nil)
        session = @sessions[client_id]
        former, session.connection = session.connection, nil if session
        former&.replaced
        return look_up(client_id, connection, nil) if session&.refused?
        return look_up(client_id, connection, service) if @shared.call(service) && !session&.pending?

        keep(session || fresh(client_id, service), connection)
      end

      # Gives up what is being looked up.
      def stop = @lookups.values.filter_map(&:task).each(&:stop).each(&:wait)

      # @yieldparam session [Session]
      def each(&block) = @sessions.each_value(&block)

      # @return [Integer]
      def size = @sessions.size

      private

      # Nothing else waits for it. Of a client that connects twice meanwhile the last connection
      # gets the session.
      def look_up(client_id, connection, service)
        lookup = @lookups[client_id]
        former, lookup.connection = lookup.connection, connection if lookup
        former&.replaced
        return if former

        @lookups[client_id] = lookup = Lookup.new(connection, service)
        lookup.task = Task.current.async("log client #{client_id}", transient: true) { complete(client_id, lookup) }
        nil
      end

      def complete(client_id, lookup)
        session = learn(client_id) || fresh(client_id, lookup.service)
      rescue StandardError => error
        lookup.connection.completed(error)
      else
        lookup.connection.completed(keep(session, lookup.connection))
      ensure
        @lookups.delete(client_id)
      end

      # Of one that has records under way only what was unknown is asked for.
      def learn(client_id)
        session = @sessions[client_id]
        session.intake.learn(@stored.call(client_id, nil)) || session if session&.refused? && session.pending?
      end

      def fresh(client_id, service) = Session.new(@open.call(client_id, @stored.call(client_id, service)))

      def keep(session, connection)
        session.connection = connection unless connection.closed?
        @sessions.delete(session.client_id)
        forget_one if @sessions.size >= @limit
        @sessions[session.client_id] = session # the last in the order of use
      end

      # The one without a connection for longest. One that is connected, or not durable yet, stays.
      def forget_one
        id, = @sessions.find { |_, session| session.connection.nil? && !session.pending? }
        @sessions.delete(id) if id
      end
    end
  end
end
