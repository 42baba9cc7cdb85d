# frozen_string_literal: true

# Files: sending them, and watching them.

module Gyre
  module EventMachine
    # Sends a file in pieces, as fast as the peer takes them; its callbacks tell of the end.
    class FileStreamer
      include Deferrable

      # It waits while more bytes than these are unsent.
      BackpressureLevel = 50_000
      ChunkSize = 16_384
      MappingThreshold = 16_384

      # @param connection [Connection]
      # @param filename [String]
      # @param options [Hash] :http_chunks encodes the pieces as HTTP's chunks
      def initialize(connection, filename, options = {})
        @connection = connection
        @chunks = options[:http_chunks]
        @file = File.open(filename, "rb") if File.exist?(filename)
        @file ? stream : fail("file not found")
      end

      private

      def stream
        while (data = @file.read(ChunkSize))
          sent = @connection.send_data(@chunks ? "#{data.bytesize.to_s(16)}\r\n#{data}\r\n" : data)
          return over { fail("the connection is closed") } if sent.zero?
          return @connection.__send__(:when_drained, method(:stream)) if @connection.get_outbound_data_size > BackpressureLevel
        end
        @connection.send_data("0\r\n\r\n") if @chunks
        over { succeed }
      end

      def over
        @file.close
        yield
      end
    end

    # Tells of changes of a file.
    class FileWatch < Connection
      # @return [String]
      attr_reader :path

      # @api private
      def self.new(_signature, *arguments)
        super(EventMachine.reactor.signature, *arguments)
      end

      # @return [void]
      def file_modified; end

      # @return [void]
      def file_deleted; end

      # @return [void]
      def file_moved; end

      # @return [void]
      # @raise [InvalidSignature] it is over, or another one watches the same file
      def stop_watching
        raise InvalidSignature, "invalid signature" unless @file

        EventMachine.reactor.loop.unwatch(self)
        EventMachine.reactor.conns.delete(@signature)
        @file.close
        @file = nil
        EventMachine.next_tick { unbind }
      end

      # A file has one watch at a time.
      # @api private
      def watch(path)
        @path = path
        @file = File.open(path)
        identity = identify(@file)
        taken = EventMachine.reactor.conns.each_value.any? { |other| other.is_a?(FileWatch) && other.watches?(identity) }
        taken ? @file = @file.close : EventMachine.reactor.loop.watch_file(self, path)
      end

      # @api private
      def watches?(identity) = @file && identify(@file) == identity

      # @api private
      def ready
        return unless @file
        return file_modified if File.exist?(@path) && File.open(@path) { |file| watches?(identify(file)) }

        @file.stat.nlink.zero? ? file_deleted : file_moved
        stop_watching if @file&.stat&.nlink&.zero?
      end

      # @api private
      def release
        @file&.close
        @file = nil
      end

      private

      def identify(file) = file.stat.then { |stat| [stat.dev, stat.ino] }
    end

    class << self
      # Watches a file.
      # @param path [String]
      # @return [FileWatch]
      # @raise [BadFile] it cannot be watched
      def watch_file(path, handler = nil, *arguments)
        watch = klass_from_handler(FileWatch, handler, *arguments).new(nil, *arguments)
        watch.watch(path)
        running_reactor.conns[watch.signature] = watch
        yield watch if block_given?
        watch
      end

      # @param signature [Integer]
      # @param path [String] of a file of 32 KB at most
      # @return [Integer] bytes
      def send_file_data(signature, path)
        raise "file too large: stream_file_data sends it" if File.size(path) > 32 * 1024

        send_data(signature, File.binread(path))
      end
    end
  end
end
