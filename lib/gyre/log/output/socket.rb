# frozen_string_literal: true

# Writes plain lines to another program over TCP or a Unix socket. Made by Output.open. On Linux, a
# batch is complete when the peer's kernel has acknowledged all bytes. After a lost connection, the
# whole batch is sent again, so lines may arrive twice. Never syncs.

require "gyre/log/output/defaults"
require "gyre/log/output/reconnecting_socket"
require "gyre/log/output/remote"
require "gyre/net/backoff"

module Gyre
  module Log
    module Output
      class Socket
        include Defaults

        # SIOCOUTQ of linux/sockios.h returns the unacknowledged bytes in the send queue.
        SIOCOUTQ = 0x5411
        # Seconds of the first and the longest pause between two checks of the queue.
        LOOKS_S = (0.0005..0.05).freeze
        # Maximum pieces of 4 KB from the peer that each check discards.
        READS = 16

        def initialize(address, **options)
          super
          @socket = ReconnectingSocket.new(@retries, Remote.endpoint(address))
        end

        def write(data, _clients = nil)
          @socket.use("send to it") do |transport|
            raise Errno::ECONNRESET if ended?(transport)

            @socket.write(data)
            await_empty_queue(transport)
          end
        end

        def reopen = @socket.close

        def close = @socket.close

        private

        # True if the peer has closed. Discards up to READS pieces of received bytes.
        def ended?(transport)
          READS.times do
            bytes = transport.read_available(4096)
            return bytes.nil? unless bytes.is_a?(String)
          end
          false
        end

        def await_empty_queue(transport)
          backoff = Backoff.new(*LOOKS_S.minmax)
          while queued(transport.to_io).positive?
            raise Errno::ECONNRESET if ended?(transport)

            sleep(backoff.failed)
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
