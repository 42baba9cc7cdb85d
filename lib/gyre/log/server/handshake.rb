# frozen_string_literal: true

# Parses the first frame on the main port and checks the key, for Gyre::Log::Connection. Pure: bytes
# in, a value out.
#
#   service ":" "authentication" ":" key                              Analogger's wire
#   service ":" "authentication/2 client=<32 hex digits> secret=<32 hex digits>" ":" key     acknowledged records; older
#                                                                     clients have no secret (identity.rb). Further words are ignored,
#                                                                     but host= and pid= (origin.rb)
#   service ":" "authentication/2 tail" ":" key                       lines as they come; no service: all
#   ":" "authentication/2 status" ":" key                             one line of JSON
#   ":" "authentication/2 reopen" ":" key                             one line when the files are reopened
#
# Analogger ignores the severity and responds "accepted" to all; this server responds "accepted 2"
# to all but the first kind.

require "openssl"
require "gyre/log/server/denials"
require "gyre/log/wire/identity"
require "gyre/log/wire/origin"
require "gyre/log/wire"

module Gyre
  module Log
    class Handshake
      # `kind` is :analogger, :records, :tail, :status or :reopen; `rest`: bytes after the frame;
      # `words`: an acknowledged client's other words.
      Request = Struct.new(:kind, :service, :client_id, :rest, :words) do
        def response = kind == :analogger ? "accepted\n" : "accepted 2\n"
      end

      TAKEN = "the client id is another client's"
      VERSIONED = %r{\Aauthentication/(\d+)(?: +(\S.*?))? *\z}n.freeze
      CLIENT = /\Aclient=(\h{32})(?: +secret=(\h{32}))?((?: +[a-z]+=[^ ]*)*)\z/n.freeze
      private_constant :VERSIONED, :CLIENT

      attr_reader :denials

      # An empty key stands for none.
      def initialize(key, limit: Wire::FRAME_BYTES_LIMIT)
        @digest = digest(key.to_s)
        @limit = limit
        @denials = Denials.new
      end

      # Returns nil (incomplete), :denied (wrong key), a String (the fault), or a Request.
      def read(bytes)
        frame = Wire.authentication(bytes, limit: @limit)
        return frame unless frame.is_a?(Hash)

        allowed?(frame[:key]) ? request(frame) : :denied
      end

      private

      # Compares digests in constant time, so that attempts reveal nothing about the key.
      def allowed?(key) = OpenSSL.fixed_length_secure_compare(@digest, digest(key))

      def digest(key) = OpenSSL::Digest::SHA256.digest(key)

      def request(frame)
        match = VERSIONED.match(frame[:severity]) or return make(:analogger, frame)
        return "unknown protocol version #{match[1][0, 9]}" unless match[1] == "2"

        case match[2]
        when "tail"   then make(:tail, frame)
        when "status" then make(:status, frame)
        when "reopen" then make(:reopen, frame)
        when CLIENT   then records(frame, *Regexp.last_match.captures)
        else "malformed authentication"
        end
      end

      def records(frame, client_id, secret, words)
        client_id = client_id.downcase
        Identity.proven?(client_id, secret&.downcase) ? make(:records, frame, client_id, words) : TAKEN
      end

      def make(kind, frame, client_id = nil, words = "")
        Request.new(kind, frame[:service], client_id, frame[:rest], words)
      end
    end
  end
end
