# frozen_string_literal: true

# One end of a socket pair between two processes of a cluster. A message is a Hash in a line of JSON
# and may carry a descriptor. Works with and without a scheduler.

require "json"
require "socket"
require "gyre/errors"
require "gyre/task"

module Gyre
  module Cluster
    # The other process closed its end early, or sent bytes that are not a message.
    class LinkError < Error; end

    class Link
      # Maximum bytes of a message. (A worker's snapshot has kilobytes, a broadcast up to 16 MB.)
      MESSAGE_BYTES_LIMIT = 17 << 20
      CHUNK_BYTES = 65_536

      def self.pair = UNIXSocket.pair(:STREAM).map { |socket| new(socket) }

      # Returns a closed link, for a restored member whose own link had ended.
      def self.ended = pair.each(&:close).first

      attr_reader :tasks # that receive and send
      attr_reader :socket
      attr_reader :input # bytes of an incomplete message

      # Takes over the socket of a former program after exec. `input`: its received bytes of an
      # incomplete message; `output`: its unsent bytes.
      def initialize(socket, input: +"", output: "")
        @socket = socket.is_a?(Integer) ? UNIXSocket.for_fd(socket) : socket
        @socket.close_on_exec = true
        @input = input.b
        @seen = 0 # bytes of the input known to have no line end
        @output = [[output.b, nil]]
        @descriptors = []
        @tasks = []
      end

      # Sends a message, and a duplicate of `io`. Raises LinkError if the other process has ended.
      def send(message, io = nil) = write(Link.line(message), io)

      def self.line(message) = "#{JSON.generate(message)}\n"

      # Sends whole lines after those already queued. Several fibers may call it.
      def write(lines, io = nil)
        @output << [lines.b, io]
        flush
      rescue SystemCallError, IOError => error
        raise LinkError, "send #{lines[0, 20]}: #{error.message}"
      end

      # Sends the former program's unsent bytes, then each text of the outbox as it comes. A block
      # makes a line of each text. Returns when the link fails.
      def carry(outbox, &line)
        write("")
        write((line ? outbox.take.map(&line) : outbox.take).join) while true
      rescue LinkError
        nil
      end

      # Returns the queued bytes that are not sent yet.
      def output = @output.map(&:first).join

      # Waits for a message and returns it; nil if the other process ended or closed the link. If
      # `wait` is false, returns nil instead of waiting. Raises LinkError for malformed bytes.
      def receive(wait: true)
        until (line_end = @input.index("\n", @seen))
          @seen = @input.bytesize
          Task.current?&.yield if wait # a process that sends endlessly does not delay others
          chunk = read(wait) or return
          @input << chunk
          raise LinkError, "a message of more than #{MESSAGE_BYTES_LIMIT} bytes" if @input.bytesize > MESSAGE_BYTES_LIMIT
        end
        @seen = 0
        message = JSON.parse(@input.slice!(0..line_end).force_encoding(Encoding::UTF_8))
        message.is_a?(Hash) ? message : raise(LinkError, "#{message.class} instead of an object")
      rescue JSON::ParserError => error
        raise LinkError, error.message
      end

      # Takes the oldest received descriptor, as a socket; raises LinkError if there is none.
      def take_socket = @descriptors.shift || raise(LinkError, "no descriptor came")

      def closed? = @socket.closed?

      # True if the other process has closed its end and nothing is left to receive. For a signal
      # handler; a fork may have closed this end.
      def left? = !closed? && @socket.recv_nonblock(1, Socket::MSG_PEEK, exception: false).to_s.empty?

      def close
        @tasks.each { |task| task.stop unless Task.current?.equal?(task) }
        @descriptors.each(&:close)
        @socket.close
      end

      private

      # Other fibers may add and send lines while this fiber waits.
      def flush
        until @output.empty?
          bytes, io = @output.first
          controls = io ? [Socket::AncillaryData.unix_rights(io)] : []
          sent = @socket.sendmsg_nonblock(bytes, 0, nil, *controls, exception: false)
          next @socket.wait_writable if sent == :wait_writable

          @output.shift
          @output.unshift([bytes.byteslice(sent..), nil]) if sent < bytes.bytesize
        end
      end

      def read(wait)
        until (received = @socket.recvmsg_nonblock(CHUNK_BYTES, 0, scm_rights: true, exception: false)) != :wait_readable
          return unless wait

          @socket.wait_readable
        end
        bytes, _, _, *controls = received
        controls.each { |control| keep(control.unix_rights) if control.cmsg_is?(:SOCKET, :RIGHTS) }
        bytes unless bytes.nil? || bytes.empty?
      rescue Errno::ECONNRESET, IOError
        nil
      end

      def keep(ios)
        ios.each do |io|
          io.autoclose = false
          @descriptors << UNIXSocket.for_fd(io.fileno)
        end
      end
    end
  end
end
