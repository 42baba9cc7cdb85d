# frozen_string_literal: true

# Follows an acknowledged client across connections: its last received and last durable record.
# Connections look up their session in Sessions; the committer acknowledges. Uses no sockets.

module Gyre
  module Log
    # Outlives its client's connections: records of a lost one are acknowledged on the next.
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

      def received = @intake.received

      # A sink's output has stored the client's records up to `sequence`. Called by the committer.
      def stored(sink, sequence) = @intake.stored(sink, sequence)

      # Acknowledges durable records. Called by the committer.
      def settle = acknowledge(@intake.durable)

      def acknowledge(sequence)
        return unless sequence > @acknowledged

        @acknowledged = sequence
        @connection&.acknowledged
      end

      # True if a record came for an output with unknown stored records.
      def refused? = @intake.refused?

      # True if a received record is not durable.
      def pending? = received > @acknowledged
    end

    class Sessions
      include Enumerable

      # Remembers `limit` sessions without a connection. The block makes the intake for a client and
      # service, with the stored sequence numbers.
      def initialize(limit, &open)
        @limit = limit
        @open = open
        @sessions = {}
      end

      # Returns the client's session and replaces its former connection. Raises Output::Unavailable
      # if an output of the service (after a refused record: any output) has unknown numbers.
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

      # Forgets the longest absent session; connected ones and those with pending records stay.
      def forget_one
        id, = @sessions.find { |_, session| session.connection.nil? && !session.pending? }
        @sessions.delete(id) if id
      end
    end
  end
end
