# frozen_string_literal: true

# An output to another program over TCP or a Unix socket: plain lines. Made by Output.open. A batch
# is over when the other side's kernel has taken all of it (Linux reports how much is still queued);
# when the connection breaks before, the whole batch is sent again on the next one. So nothing is
# lost between batches, and lines of one batch may come twice. It cannot sync.

require "gyre/log/output/defaults"
require "gyre/log/output/reconnecting_socket"
require "gyre/log/output/remote"

module Gyre
  module Log
    module Output
      # Lines to a socket.
      class Socket
        include Defaults

        # SIOCOUTQ of linux/sockios.h: bytes in the send queue that the peer has not acknowledged.
        SIOCOUTQ = 0x5411
        # Between two looks at the queue, at first and at most.
        LOOKS_S = (0.0005..0.05).freeze
        # What the other side sends, in pieces of 4 KB, that is thrown away at each look.
        READS = 16

        # @param address [String] tcp://host:port or unix:///path
        # @raise [ArgumentError]
        def initialize(address, format: :text, report: nil, longest_pause_s: Retry::LONGEST_PAUSE_S)
          @name = address
          @format = format
          @retries = Retry.new(address, report: report, longest_pause_s: longest_pause_s)
          @socket = ReconnectingSocket.new(@retries, Remote.endpoint(address))
        end

        # @param data [String]
        def write(data, _clients = nil)
          @socket.use("send to it") do |transport|
            raise Errno::ECONNRESET if ended?(transport)

            @socket.write(data)
            await_empty_queue(transport)
          end
        end

        # A new connection from the next batch on.
        def reopen = @socket.close

        def close = @socket.close

        private

        # The other side has closed since the last batch; what it sends is thrown away, a little at
        # a time, since it may never end.
        def ended?(transport)
          READS.times do
            bytes = transport.read_available(4096)
            return bytes.nil? unless bytes.is_a?(String)
          end
          false
        end

        def await_empty_queue(transport)
          pause_s = LOOKS_S.begin
          while queued(transport.to_io).positive?
            raise Errno::ECONNRESET if ended?(transport)

            sleep(pause_s)
            pause_s = [pause_s * 2, LOOKS_S.end].min
          end
        end

        def queued(io)
          return 0 unless RUBY_PLATFORM.include?("linux")

          count = [0].pack("i")
          io.ioctl(SIOCOUTQ, count)
          count.unpack1("i")
        end
      end
    end
  end
end
