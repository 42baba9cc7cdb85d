# frozen_string_literal: true

# The origin of messages: host and process as a client's first frame states them (Gyre::Log::Address
# writes the frame, Gyre::Log::Handshake reads it), or the peer's address. A stated host is short,
# has no spaces and is not verified.

require "socket"

module Gyre
  module Log
    # `pid` may be nil.
    Origin = Struct.new(:host, :pid) do
      class << self
        # Returns words for a client's first frame. `pid` is nil for messages of another process.
        def words(pid)
          host = Socket.gethostname.b.gsub(/[^\w.:-]/n, "_")[0, self::HOST_BYTES]
          host = "localhost" if host.empty?
          "host=#{host}#{" pid=#{pid}" if pid}"
        end

        # Returns the origin that `words` state, or `seen` if they state none.
        def claimed(words, seen)
          host = words[self::HOST, 1] or return seen
          new(host, words[self::PID, 1]&.to_i)
        end

        def seen(address, pid = nil) = address.ip? ? new(address.ip_address) : new(Socket.gethostname, pid)
      end
    end

    Origin::HOST_BYTES = 255 # RFC 1035, section 2.3.4
    Origin::HOST = /(?:\A| )host=([\w.:-]{1,255})(?= |\z)/n.freeze
    Origin::PID = /(?:\A| )pid=([1-9]\d{0,9})(?= |\z)/n.freeze
  end
end
