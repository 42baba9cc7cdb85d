# frozen_string_literal: true

# Follows an acknowledged client across its connections: how far its records have come and how far
# they are durable. Sessions is the table of all. Connections look theirs up, and the committer
# acknowledges. Knows no sockets.

module Gyre
  module Log
    # One client id. It outlives its connections, so that records of a broken one are acknowledged
    # on the next.
    class Session
      attr_reader :client_id
      attr_reader :intake
      attr_reader :acknowledged # everything up to this sequence number is durable
      attr_accessor :connection # where the client is at present

      def initialize(intake)
        @intake = intake
        @client_id = -intake.client_id
        @acknowledged = 0
        @connection = nil
      end

      # The highest sequence number received.
      def received = @intake.received

      # Notes that a sink's output has stored the client's records up to `sequence`. Called by the
      # committer, in a task of its own.
      def stored(sink, sequence) = @intake.stored(sink, sequence)

      # Acknowledges what is durable. Called by the committer.
      def settle = acknowledge(@intake.durable)

      def acknowledge(sequence)
        return unless sequence > @acknowledged

        @acknowledged = sequence
        @connection&.acknowledged
      end

      # True if a record came for an output whose stored records were unknown.
      def refused? = @intake.refused?

      # True if something received is not durable yet.
      def pending? = received > @acknowledged
    end

    # All sessions of a server, by client id.
    class Sessions
      include Enumerable

      # Remembers `limit` sessions without a connection. The block makes the intake of a client of a
      # service, with what the outputs have of it.
      def initialize(limit, &open)
        @limit = limit
        @open = open
        @sessions = {}
      end

      # Returns the client's session and replaces its former connection. Raises Output::Unavailable
      # if an output of the service does not know what it has; any output, if a record of another
      # service was refused.
      def find(client_id, connection, service = nil)
        session = @sessions[client_id]
        former, session.connection = session.connection, nil if session
        former&.replaced
        session = service = nil if session&.refused? && !session.pending?
        keep(session || Session.new(@open.call(client_id, service)), connection)
      end

      def each(&block) = @sessions.each_value(&block)

      def size = @sessions.size

      private

      def keep(session, connection)
        session.connection = connection
        @sessions.delete(session.client_id)
        forget_one if @sessions.size >= @limit
        @sessions[session.client_id] = session # moves it to the end of the order of use
      end

      # Forgets the session that has lacked a connection for longest. Connected ones, and those with
      # records not durable yet, stay.
      def forget_one
        id, = @sessions.find { |_, session| session.connection.nil? && !session.pending? }
        @sessions.delete(id) if id
      end
    end
  end
end
