# frozen_string_literal: true

# Sends and watches files.

module Gyre
  module EventMachine
    # Sends an IO's content in pieces, as fast as the peer receives them. Callbacks report the end.
    class IOStreamer
      include Deferrable

      CHUNK_SIZE = 16_384

      # `http_chunks: true` encodes the pieces as HTTP chunks.
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
          return fail("the connection is closed") if sent == 0 # an override may return anything
          return @connection.__send__(:when_drained, method(:stream)) if full?
        end
        @connection.send_data("0\r\n\r\n") if @chunks
        succeed
      end

      # False for gems' own connections that have only `send_data`.
      def full? = @connection.respond_to?(:get_outbound_data_size) && @connection.get_outbound_data_size > FileStreamer::BackpressureLevel
    end

    # Sends a file as IOStreamer sends an IO's content.
    class FileStreamer < IOStreamer
      # Unsent bytes beyond which sending waits.
      BackpressureLevel = 50_000
      ChunkSize = CHUNK_SIZE

      def initialize(connection, filename, options = {})
        File.exist?(filename) ? super(connection, File.open(filename, "rb"), options) : fail("file not found")
      end

      def set_deferred_status(*)
        @io&.close
        super
      end
    end

    # A connection that has no descriptor; base of FileWatch and ProcessWatch.
    class Watch < Connection
      def self.new(_signature, *arguments) = super(EventMachine.reactor.signature, *arguments)

      # Raises InvalidSignature if the watch has ended or has never begun.
      def stop_watching
        raise InvalidSignature, "invalid signature" unless @watching

        @watching = false
        release
        EventMachine.reactor.conns.delete(@signature)
        EventMachine.next_tick { unbind }
      end
    end

    # Reports changes of a file.
    class FileWatch < Watch
      attr_reader :path

      def file_modified; end

      def file_deleted; end

      def file_moved; end

      # Does nothing if another FileWatch watches the file.
      def watch(path)
        @path = path
        @file = File.open(path)
        taken = EventMachine.reactor.conns.each_value.any? { |other| other.is_a?(FileWatch) && other.watches?(@file) }
        return @file.close if taken

        @watching = true
        EventMachine.reactor.loop.watch_file(self, path)
      end

      def watches?(file) = @watching && File.identical?(@file, file)

      def ready
        return unless @watching
        return file_modified if File.exist?(@path) && File.identical?(@file, @path)

        @file.stat.nlink.zero? ? file_deleted : file_moved
        stop_watching if @watching && @file.stat.nlink.zero?
      end

      def release
        EventMachine.reactor.loop.unwatch(self)
        @file.close
      end
    end

    class << self
      # Raises Errno::ENOENT if the file is missing.
      def watch_file(path, handler = nil, *arguments, &block) = watching(FileWatch, path, handler, arguments, &block)

      # Sends a file of at most 32 KB. Returns the number of queued bytes.
      def send_file_data(signature, path)
        raise "file too large: stream_file_data sends it" if File.size(path) > 32 * 1024

        send_data(signature, File.binread(path))
      end

      private

      def watching(kind, target, handler, arguments)
        watch = klass_from_handler(kind, handler, *arguments).new(nil, *arguments)
        watch.watch(target)
        running_reactor.conns[watch.signature] = watch
        yield watch if block_given?
        watch
      end
    end
  end
end
