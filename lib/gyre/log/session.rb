# frozen_string_literal: true

# An acknowledged client as the server knows it, across its connections: how far its records have come and how far they are durable.
# Sessions is the table of them. Connections look theirs up, the committer acknowledges. They know no socket.

module Gyre
  module Log
    # One client id. It outlives its connections, so that what is under way when one breaks is acknowledged on the next.
    class Session
      # @return [String] 32 hexadecimal digits
      attr_reader :client_id
      # @return [NativeSession, PortableSession] the ingest's
      attr_reader :intake
      # @return [Integer] everything up to this sequence number is durable
      attr_reader :acknowledged
      # @return [Connection, nil] where the client is at present
      attr_accessor :connection

      # @param intake [#received, #client_id] the ingest's session
      def initialize(intake)
        @intake = intake
        @client_id = intake.client_id
        @acknowledged = 0
        @connection = nil
      end

      # @return [Integer] the highest sequence number that has come
      def received
        @intake.received
      end

      # Everything up to here is durable. Called by the committer, in its own task.
      #
      # @param sequence [Integer]
      # @return [void]
      def acknowledge(sequence)
        return unless sequence > @acknowledged

        @acknowledged = sequence
        @connection&.acknowledged
      end

      # @return [Boolean] whether something has come that is not durable yet
      def pending?
        received > @acknowledged
      end
    end

    # All sessions of a server, by client id.
    class Sessions
      include Enumerable

      # @param limit [Integer] how many without a connection are remembered; the outputs know them all the same
      # @param shared [Boolean] clients may have been at other servers between two connections: what is known of one is asked for
      #   again each time
      # @yieldparam client_id [String]
      # @yieldreturn [#received, #client_id] a session of the ingest, with what the outputs have stored
      def initialize(limit, shared: false, &open)
        @limit = limit
        @shared = shared
        @open = open
        @sessions = {}
      end

      # @param client_id [String]
      # @return [Session]
      def fetch(client_id)
        session = @sessions[client_id]
        session = begin_session(client_id, session&.connection) if session.nil? || (@shared && !session.pending?)
        @sessions.delete(client_id)
        forget_one if @sessions.size >= @limit
        @sessions[client_id] = session # the last in the order of use
      end

      # @yieldparam session [Session]
      def each(&block)
        @sessions.each_value(&block)
      end

      # @return [Integer]
      def size
        @sessions.size
      end

      private

      def begin_session(client_id, former_connection)
        Session.new(@open.call(client_id)).tap { |session| session.connection = former_connection }
      end

      # The one that was away longest. One that is connected, or not durable yet, stays.
      def forget_one
        id, = @sessions.find { |_, session| session.connection.nil? && !session.pending? }
        @sessions.delete(id) if id
      end
    end
  end
end
