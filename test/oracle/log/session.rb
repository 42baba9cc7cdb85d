# frozen_string_literal: true

# A client of acknowledged logging, as the oracle's ingest has it: how far its records have come,
# and how far each sink has them. Made by the ingest, held by the server, also between the client's
# connections.

module LogOracle
  # See Gyre::Log::Ingest.
  class Session
    attr_reader :client_id
    # Returns the highest sequence number that has come.
    attr_reader :received

    def initialize(client_id, last)
      raise ArgumentError, "a client's id has 32 characters: #{client_id.inspect}" unless client_id.bytesize == 32

      @client_id = client_id.dup.freeze
      @received = 0
      @last = {}.compare_by_identity # what each sink has
      last.each { |sink, sequence| @last[sink] = sequence }
      @stored = @last.dup # and of that, its output
    end

    # Returns whether a client may have come to this number by now.
    def may?(sequence)
      sequence <= [@received, *@last.values].max + (1 << 48)
    end

    def receive(sequence)
      @received = sequence if sequence > @received
    end

    # Whether the record is new for a sink; from then on it is not.
    def new_for?(sink, sequence)
      return false if sequence <= @last.fetch(sink, 0)

      @last[sink] = sequence
      true
    end

    # A sink's output has stored the records up to there.
    def stored(sink, sequence)
      @stored[sink] = [@stored.fetch(sink, 0), sequence].max
    end

    def durable
      behind = @last.filter_map { |sink, sequence| @stored.fetch(sink, 0).then { |stored| stored if stored < sequence } }
      [@received, *behind].min
    end
  end
end
