# frozen_string_literal: true

# A connection's socket on the hub's loop: what could not be sent yet, and what is waited for. Gyre::Log::Connection owns one. It
# knows no protocol and never waits.

module Gyre
  module Log
    # A transport, its unsent bytes and its watch.
    class Link
      # @return [Transport::Plain]
      attr_reader :transport

      # @param hub [Hub] whose loop watches
      # @param owner [Connection] the key under which it is watched
      # @param transport [Transport::Plain]
      def initialize(hub, owner, transport)
        @hub = hub
        @owner = owner
        @transport = transport
        @unsent = @interest = nil
        @wants_write = false
      end

      # @return [Boolean] whether all that was written is in the kernel
      def clear?
        @unsent.nil?
      end

      # @return [String] what is not
      def unsent
        @unsent || ""
      end

      # @param bytes [String]
      # @return [Boolean] whether all that was written is in the kernel
      def write(bytes)
        @unsent = @unsent ? @unsent << bytes : bytes.b
        flush
      end

      # @return [Boolean]
      def flush
        return true if @unsent.nil?

        taken = @transport.write(@unsent)
        @wants_write = true
        return false unless taken.is_a?(Integer)

        @unsent = taken < @unsent.bytesize ? @unsent.byteslice(taken, @unsent.bytesize) : nil
        @wants_write = !@unsent.nil?
        @unsent.nil?
      end

      # TLS may have to write before it can read.
      #
      # @param result [Object] of the transport
      # @return [Object] the same
      def heed(result)
        @wants_write ||= result == :wait_writable
        result
      end

      # The socket told that something is possible: what was waited for is tried again.
      #
      # @return [Boolean] whether reading may be possible, too
      def stir
        @wants_write = false
        @interest != :write
      end

      # Tells the loop what is waited for now. Most often that is what it was.
      #
      # @param reads [Boolean]
      # @return [void]
      def watch(reads)
        interest = reads ? (@wants_write ? :both : :read) : (:write if @wants_write)
        return if interest == @interest

        unwatch
        @interest = interest
        @hub.loop.watch_io(@owner, @transport.to_io, read: reads, write: @wants_write) if interest
      end

      # @return [void]
      def close
        unwatch
        @transport.close
      end

      private

      def unwatch
        @hub.loop.unwatch(@owner) if @interest
        @interest = nil
      end
    end
  end
end
