# frozen_string_literal: true

# Keeps an acknowledged client's last received and last durable record, across its connections.
# Connections find their session in Sessions; the committer calls {Session#settle}. Uses no sockets.

require "gyre/log/ingest"

module Gyre
  module Log
    # Prepended to the ingest's session, which outlives its client's connections.
    module Session
      attr_accessor :connection # where the client is at present

      def client_id = @client_id ||= -super

      # Everything up to this sequence number is durable.
      def acknowledged = @acknowledged || 0

      # Acknowledges durable records. Called by the committer.
      def settle
        return unless durable > acknowledged

        @acknowledged = durable
        @connection&.acknowledged
      end

      # True if a received record is not durable yet.
      def pending? = received > acknowledged
    end

    Ingest::Session.prepend(Session) if Loop.native?

    class Sessions
      # Forgets absent clients when there are `limit` sessions. The block makes a session for a
      # client and service, with the stored sequence numbers.
      def initialize(limit, &open)
        @limit = limit
        @open = open
        @sessions = {}
      end

      # Returns the client's session and replaces its former connection. Raises Output::Unavailable
      # if an output of the service cannot tell its stored numbers yet. After a refused record,
      # makes a new session, for which all outputs must tell their numbers.
      def find(client_id, connection, service = nil)
        session = @sessions[client_id]
        former, session.connection = session.connection, nil if session
        former&.replaced
        session = service = nil if session&.refused? && !session.pending?
        keep(session || @open.call(client_id, service), connection)
      end

      def size = @sessions.size

      private

      def keep(session, connection)
        session.connection = connection
        @sessions.delete(session.client_id)
        forget_one if @sessions.size >= @limit
        @sessions[session.client_id] = session # moves it to the end of the order of use
      end

      # Forgets the least recently used session that has no connection and no pending records.
      def forget_one
        id, = @sessions.find { |_, session| session.connection.nil? && !session.pending? }
        @sessions.delete(id) if id
      end
    end
  end
end
