# frozen_string_literal: true

# Follows an acknowledged client across its connections: how far its records have come and how far
# they are durable. Sessions is the table of all. Connections look theirs up, and the committer
# acknowledges. Knows no sockets.

require "gyre/task"

module Gyre
  module Log
    # One client id. It outlives its connections, so that records of a broken one are acknowledged
    # on the next.
    class Session
      attr_reader :client_id
      attr_reader :intake
      attr_reader :acknowledged # everything up to this sequence number is durable
      attr_accessor :connection # where the client is at present

      # Remembers `limit` sessions without a connection. `shared` tells whether clients of a service
      # may use other servers (asked each time, in a task); `stored` returns what each sink's output
      # has of a client.
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

      # Asks the outputs what they have of a client, for this connection.
      Lookup = Struct.new(:connection, :service, :task)
      private_constant :Lookup

      def initialize(limit, shared: ->(_) { false }, stored: ->(*) {}, &open)
        @limit = limit
        @shared = shared
        @stored = stored
        @open = open
        @sessions = {}
        @lookups = {} # by client id
      end

      # Returns the client's session and replaces its former connection. Returns nil if `completed`
      # is called later, with the session or an exception.
      def find(client_id, connection, service = nil)
        session = @sessions[client_id]
        former, session.connection = session.connection, nil if session
        former&.replaced
        return look_up(client_id, connection, nil) if session&.refused?
        return look_up(client_id, connection, service) if @shared.call(service) && !session&.pending?

        keep(session || fresh(client_id, service), connection)
      end

      # Stops all look-ups.
      def stop = @lookups.values.filter_map(&:task).each(&:stop).each(&:wait)

      def each(&block) = @sessions.each_value(&block)

      def size = @sessions.size

      private

      # Looks up beside everything else. If a client connects twice meanwhile, the last connection
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

      # Asks only for unknown numbers of a client with records under way.
      def learn(client_id)
        session = @sessions[client_id]
        session.intake.learn(@stored.call(client_id, nil)) || session if session&.refused? && session.pending?
      end

      def fresh(client_id, service) = Session.new(@open.call(client_id, @stored.call(client_id, service)))

      def keep(session, connection)
        session.connection = connection unless connection.closed?
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
