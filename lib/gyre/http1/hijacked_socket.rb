# frozen_string_literal: true

# A hijacked connection whose first bytes had been read already: they come first, then the socket's.
# Connection#hijack gives it in place of the plain Socket when a client sent more than the request's head.
# What is put back is all that it buffers; every method that it does not define is the socket's.

require "delegate"

module Gyre
  module HTTP1
    # Its {#to_io} is the socket, which does not know of the bytes put back: IO.select on it may wait although there are some.
    class HijackedSocket < SimpleDelegator
      # @param socket [Socket]
      # @param bytes [String] BINARY, not empty
      def initialize(socket, bytes)
        super(socket)
        @bytes = bytes
      end

      # @return [String, nil] as IO#read
      def read(length = nil, buffer = nil)
        return super unless @bytes && length != 0

        content = take(length)
        if length.nil?
          content << __getobj__.read
        elsif content.bytesize < length && (rest = __getobj__.read(length - content.bytesize))
          content << rest
        end
        into(buffer, content)
      end

      # @return [String] as IO#readpartial
      def readpartial(length, buffer = nil)
        @bytes ? into(buffer, take(length)) : __getobj__.readpartial(length, *buffer)
      end

      # @return [String] as IO#sysread
      def sysread(length, buffer = nil)
        @bytes ? into(buffer, take(length)) : __getobj__.sysread(length, *buffer)
      end

      # @return [String, Symbol, nil] as IO#read_nonblock
      def read_nonblock(length, buffer = nil, **options)
        @bytes ? into(buffer, take(length)) : __getobj__.read_nonblock(length, *buffer, **options)
      end

      # @return [String] as BasicSocket#recv
      def recv(length, flags = 0)
        @bytes ? take(length) : __getobj__.recv(length, flags)
      end

      # @return [String, Symbol, nil] as BasicSocket#recv_nonblock
      def recv_nonblock(length, flags = 0, buffer = nil, **options)
        @bytes ? into(buffer, take(length)) : __getobj__.recv_nonblock(length, flags, *buffer, **options)
      end

      # @param separator [String]
      # @return [String, nil] as IO#gets
      def gets(separator = "\n", **options)
        return __getobj__.gets(separator, **options) unless @bytes

        ending = @bytes.index(separator)
        return chomped(take(ending + separator.bytesize), separator, options) if ending

        line = take(nil) << __getobj__.gets(separator).to_s
        chomped(line, separator, options)
      end

      # @return [Integer, nil] as IO#getbyte
      def getbyte
        @bytes ? take(1).getbyte(0) : super
      end

      # @return [Boolean] as IO#eof?
      def eof?
        @bytes ? false : super
      end

      # @return [self, nil] at once while there are bytes put back
      def wait_readable(timeout = nil)
        @bytes || __getobj__.wait_readable(timeout) ? self : nil
      end

      private

      def take(length)
        bytes = @bytes
        @bytes = length && length < bytes.bytesize ? bytes.byteslice(length..-1) : nil
        @bytes ? bytes.byteslice(0, length) : bytes
      end

      def into(buffer, content)
        buffer ? buffer.replace(content) : content
      end

      def chomped(line, separator, options)
        options[:chomp] ? line.chomp(separator) : line
      end
    end
  end
end
