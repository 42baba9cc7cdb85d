# frozen_string_literal: true

# Passes a connection's input to another connection without calling receive_data.

module Gyre
  module EventMachine
    module Descriptors
      # A stream's links: the stream that gets its input (target), streams whose input it gets
      # (sources), and callbacks that wait until all bytes are sent.
      # @api private
      class Links
        attr_reader :target, :bytes, :sources

        def initialize(stream)
          @stream = stream
          @target = nil
          @sources = []
          @awaiting = []
          @bytes = 0
        end

        # Starts passing the input to `target`, or stops if `target` is nil. Passes `length` bytes
        # in total. Pauses while more than `buffer_bytes` are unsent at the target. For both
        # numbers, 0 means no limit.
        def pass_to(target, buffer_bytes = 0, length = 0)
          @target&.links&.sources&.delete(@stream)
          @target, @buffer_bytes = target, buffer_bytes
          @bytes = 0 if target # afterwards programs still ask for the number
          @left = length.positive? ? length : nil
          target&.links&.sources&.push(@stream)
        end

        # Passes data on. Returns the bytes beyond the length.
        def pass(data)
          rest = @left && data.bytesize > @left ? data.byteslice(@left..) : nil
          data = data.byteslice(0, @left) if rest
          @bytes += data.bytesize
          @left -= data.bytesize if @left
          @target.send_data(data)
          if @buffer_bytes.positive? && @target.unsent_bytes > @buffer_bytes
            @stream.pause
            @target.when_drained(@stream.method(:resume))
          end
          rest
        end

        def over? = @left&.zero?

        def when_drained(callable) = @awaiting << callable

        def drained
          awaiting, @awaiting = @awaiting, []
          awaiting.each(&:call)
        end

        def unbound = @sources.dup.each(&:target_unbound)

        def drop
          drained
          pass_to(nil)
        end
      end
    end

    class << self
      # Passes `length` bytes of `from` to `to` in total. Pauses `from` while more than `bufsize`
      # bytes are unsent at `to`. For both numbers, 0 means no limit.
      def enable_proxy(from, to, bufsize = 0, length = 0) = start_proxy(from.signature, to.signature, bufsize, length)

      def disable_proxy(from) = reactor.descriptors[from.signature]&.links&.pass_to(nil)

      def start_proxy(from, to, bufsize, length)
        source = reactor.descriptors[from] or return
        target = reactor.descriptors.fetch(to) { raise ConnectionError, "not a connection: #{to}" }
        source.links.pass_to(target, bufsize, length)
        nil
      end

      def get_proxied_bytes(signature) = reactor.descriptors[signature]&.links&.bytes.to_i
    end
  end
end
