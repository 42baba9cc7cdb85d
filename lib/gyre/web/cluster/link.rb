# frozen_string_literal: true

# One end of a socket pair between two processes of a cluster: messages are Hashes, a line of JSON
# each, and a message may carry a descriptor. The supervisor, the mold and the workers each hold
# ends. It works with and without a scheduler, and knows none of the messages.

require "json"
require "socket"
require "gyre/errors"

module Gyre
  module Web
    module Cluster
      # The other end was closed when there was still something to say, or sends no messages.
      class LinkError < Error; end

      # See the head of this file.
      class Link
        # A snapshot of a busy worker has some kilobytes.
        MESSAGE_BYTES_LIMIT = 4 * 1024 * 1024
        CHUNK_BYTES = 65_536
        private_constant :MESSAGE_BYTES_LIMIT, :CHUNK_BYTES

        # @return [Array(Link, Link)]
        def self.pair
          UNIXSocket.pair(:STREAM).map { |socket| new(socket) }
        end

        # @return [Link] to a process that says nothing any more
        def self.ended = pair.each(&:close).first

        # @return [UNIXSocket]
        attr_reader :socket
        # @return [String] what has come of a message that is not whole yet
        attr_reader :input

        # @param socket [UNIXSocket, Integer] or its descriptor
        # @param input [String] what a former process had read of it
        def initialize(socket, input: +"")
          @socket = socket.is_a?(Integer) ? UNIXSocket.for_fd(socket) : socket
          @socket.close_on_exec = true
          @input = input.b
          @descriptors = []
        end

        # @param message [Hash] plain values
        # @param io [IO, nil] the receiver gets a descriptor of the same
        # @return [void]
        # @raise [LinkError] the other process has gone
        def send(message, io = nil)
          bytes = "#{JSON.generate(message)}\n".b
          controls = io ? [Socket::AncillaryData.unix_rights(io)] : []
          until bytes.empty?
            sent = @socket.sendmsg_nonblock(bytes, 0, nil, *controls, exception: false)
            next @socket.wait_writable if sent == :wait_writable

            controls = []
            bytes = bytes.byteslice(sent..)
          end
        rescue SystemCallError, IOError => error
          raise LinkError, "send #{message.keys.first}: #{error.message}"
        end

        # Waits for the next message.
        #
        # @return [Hash{String => Object}, nil] nil: the other process has gone, or closed its end
        # @raise [LinkError] what comes is no message
        def receive
          until (line = @input.slice!(/\A[^\n]*\n/n))
            chunk = read or return
            @input << chunk
            raise LinkError, "a message of more than #{MESSAGE_BYTES_LIMIT} bytes" if @input.bytesize > MESSAGE_BYTES_LIMIT
          end
          message = JSON.parse(line.force_encoding(Encoding::UTF_8))
          message.is_a?(Hash) ? message : raise(LinkError, "#{message.class} instead of an object")
        rescue JSON::ParserError => error
          raise LinkError, error.message
        end

        # @return [UNIXSocket] the descriptor that came with the message received last, in a socket
        # @raise [LinkError] there was none
        def take_socket = @descriptors.shift || raise(LinkError, "no descriptor came")

        # @return [Boolean]
        def closed? = @socket.closed?

        # @return [void]
        def close
          @descriptors.each(&:close)
          @socket.close
        end

        private

        # @return [String, nil] nil: its end
        def read
          until (received = @socket.recvmsg_nonblock(CHUNK_BYTES, 0, scm_rights: true, exception: false)) != :wait_readable
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
end
