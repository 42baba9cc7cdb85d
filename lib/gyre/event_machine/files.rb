# frozen_string_literal: true

# Sends and watches files.

module Gyre
  module EventMachine
    # Sends what an IO reads in pieces, as fast as the peer takes them; callbacks report the end.
    class IOStreamer
      include Deferrable

      CHUNK_SIZE = 16_384

      # `http_chunks: true` encodes the pieces as HTTP's chunks.
      def initialize(connection, io, options = {})
        @connection = connection
        @io = io
        @chunks = options[:http_chunks]
        stream
      end

      private

      def stream
        while (data = @io.read(CHUNK_SIZE))
          sent = @connection.send_data(@chunks ? "#{data.bytesize.to_s(16)}\r\n#{data}\r\n" : data)
          return over { fail("the connection is closed") } if sent.zero?
          return @connection.__send__(:when_drained, method(:stream)) if @connection.get_outbound_data_size > FileStreamer::BackpressureLevel
        end
        @connection.send_data("0\r\n\r\n") if @chunks
        over { succeed }
      end

      def over = yield
    end

    # Sends a file likewise.
    class FileStreamer < IOStreamer
      # Unsent bytes beyond which it waits.
      BackpressureLevel = 50_000
      ChunkSize = CHUNK_SIZE
      MappingThreshold = 16_384

      def initialize(connection, filename, options = {})
        File.exist?(filename) ? super(connection, File.open(filename, "rb"), options) : fail("file not found")
      end

      private

      def over
        @io.close
        super
      end
    end

    # Reports changes of a file.
    class FileWatch < Connection
      attr_reader :path

      def self.new(_signature, *arguments)
        super(EventMachine.reactor.signature, *arguments)
      end

      def file_modified; end

      def file_deleted; end

      def file_moved; end

      # Raises InvalidSignature if it is over, or has been replaced.
      def stop_watching
        raise InvalidSignature, "invalid signature" unless @file

        EventMachine.reactor.loop.unwatch(self)
        EventMachine.reactor.conns.delete(@signature)
        @file.close
        @file = nil
        EventMachine.next_tick { unbind }
      end

      # A file has one watch only.
      def watch(path)
        @path = path
        @file = File.open(path)
        identity = identify(@file)
        taken = EventMachine.reactor.conns.each_value.any? { |other| other.is_a?(FileWatch) && other.watches?(identity) }
        taken ? @file = @file.close : EventMachine.reactor.loop.watch_file(self, path)
      end

      def watches?(identity) = @file && identify(@file) == identity

      def ready
        return unless @file
        return file_modified if File.exist?(@path) && File.open(@path) { |file| watches?(identify(file)) }

        @file.stat.nlink.zero? ? file_deleted : file_moved
        stop_watching if @file&.stat&.nlink&.zero?
      end

      def release
        @file&.close
        @file = nil
      end

      private

      def identify(file) = file.stat.then { |stat| [stat.dev, stat.ino] }
    end

    class << self
      # Raises BadFile for a file that cannot be watched.
      def watch_file(path, handler = nil, *arguments)
        watch = klass_from_handler(FileWatch, handler, *arguments).new(nil, *arguments)
        watch.watch(path)
        running_reactor.conns[watch.signature] = watch
        yield watch if block_given?
        watch
      end

      # Takes files up to 32 KB. Returns their bytes.
      def send_file_data(signature, path)
        raise "file too large: stream_file_data sends it" if File.size(path) > 32 * 1024

        send_data(signature, File.binread(path))
      end
    end
  end
end
