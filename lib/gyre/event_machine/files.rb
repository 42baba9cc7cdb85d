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
          return fail("the connection is closed") if [0, -1].include?(sent) # an override may return anything
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

      # Ends the watch after the reactor's last callback.
      def finish
        @watching = false
        release
        unbind
      rescue StandardError => error
        EventMachine.reactor.failed(error)
      end

      # Called in a forked process.
      def disown; end
    end

    # Reports changes of a file, also after it has got another name. On a system without inotify
    # looks at the path now and then.
    class FileWatch < Watch
      # Bits of inotify's masks. A folder's entries are its content.
      MODIFIED = 0x3c2
      DELETED = 0x400
      MOVED = 0x800
      private_constant :MODIFIED, :DELETED, :MOVED

      attr_reader :path

      def file_modified; end

      def file_deleted; end

      def file_moved; end

      # Does nothing if another FileWatch watches the file.
      def watch(path)
        @path = path
        @file = File.stat(path)
        return if EventMachine.reactor.conns.each_value.any? { |other| other.is_a?(FileWatch) && other.watches?(@file) }

        @watching = true
        @masks = []
        fd, = Native.inotify([path])
        @reports = IO.for_fd(fd) if fd
        loop = EventMachine.reactor.loop
        fd ? loop.watch_io(self, @reports) : loop.watch_file(self, path)
      end

      def watches?(file) = @watching && [@file.dev, @file.ino] == [file.dev, file.ino]

      def ready
        @masks.concat(masks) if @watching
        while @watching && (mask = @masks.shift)
          file_modified if mask.anybits?(MODIFIED)
          file_moved if mask.anybits?(MOVED)
          next if mask.nobits?(DELETED)

          file_deleted
          stop_watching if @watching
        end
      ensure
        EventMachine.reactor.emit(self) if @watching && @masks.any? # a callback has raised
      end

      def release
        EventMachine.reactor.loop.unwatch(self)
        @reports&.close
      end

      def disown = @reports&.close

      private

      def masks
        return Loop::FileWatch.reports(@reports).map { |_, mask,| mask } if @reports

        before, @file = @file, File.stat(@path)
        watches?(before) ? [MODIFIED] * (@file.mtime <=> before.mtime).abs : [MOVED]
      rescue Errno::ENOENT
        [DELETED]
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
