# frozen_string_literal: true

# Passes a connection's input to another one, without receive_data.

module Gyre
  module EventMachine
    module Descriptors
      # Between two streams.
      class Proxy
        attr_reader :target, :bytes

        # Pauses the source while more than `buffer_bytes` are unsent at the target; sends `length`
        # bytes in all. 0: no limit.
        def initialize(source, target, buffer_bytes, length)
          @source, @target, @buffer_bytes = source, target, buffer_bytes
          @left = length.positive? ? length : nil
          @bytes = 0
        end

        # Returns bytes beyond the length.
        def pass(data)
          rest = @left && data.bytesize > @left ? data.byteslice(@left..) : nil
          data = data.byteslice(0, @left) if rest
          @bytes += data.bytesize
          @left -= data.bytesize if @left
          @target.send_data(data)
          if @buffer_bytes.positive? && @target.unsent_bytes > @buffer_bytes
            @source.pause
            @target.when_drained(@source.method(:resume))
          end
          rest
        end

        def over? = @left&.zero?
      end

      # Links of a stream: where its input goes, streams whose input comes here, and waits for all
      # bytes to be sent.
      # @api private
      class Links
        attr_reader :proxy, :sources

        def initialize(stream)
          @stream = stream
          @proxy = nil
          @sources = []
          @awaiting = []
        end

        # From now on sends the input to another stream; with nil no longer.
        def proxy=(proxy)
          @proxy&.target&.links&.sources&.delete(@stream)
          @proxy = proxy
          proxy.target.links.sources << @stream if proxy
        end

        def when_drained(callable) = @awaiting << callable

        def drained
          awaiting, @awaiting = @awaiting, []
          awaiting.each(&:call)
        end

        def unbound = @sources.dup.each(&:target_unbound)

        def drop
          drained
          self.proxy = nil
        end
      end
    end

    class << self
      # Pauses the source while more than `bufsize` bytes are unsent; passes on `length` bytes in
      # all. 0: no limit.
      def enable_proxy(from, to, bufsize = 0, length = 0) = start_proxy(from.signature, to.signature, bufsize, length)

      def disable_proxy(from) = reactor.descriptors[from.signature]&.links&.proxy = nil

      def start_proxy(from, to, bufsize, length)
        source, target = [from, to].map { |signature| reactor.descriptors.fetch(signature) { raise "not a connection: #{signature}" } }
        source.links.proxy = Descriptors::Proxy.new(source, target, bufsize, length)
        nil
      end

      # Bytes passed to the other connection.
      def get_proxied_bytes(signature) = reactor.descriptors[signature]&.links&.proxy&.bytes.to_i
    end
  end
end
