# frozen_string_literal: true

# Parses the first frame on the main port and checks the key, for Gyre::Log::Connection. Pure: bytes
# in, a value out.
#
#   service ":" "authentication" ":" key                    Analogger's protocol
#   service ":" "authentication/2 client=<id> secret=<secret>" ":" key      acknowledged records
#   service ":" "authentication/2 tail" ":" key             new lines; an empty service means all
#   ":" "authentication/2 status" ":" key                   one line of JSON
#   ":" "authentication/2 reopen" ":" key                   one line when the files are reopened
#
# Id and secret have 32 hex digits. Old clients have no secret (identity.rb). Of further words, only
# host= and pid= have a meaning (origin.rb). Analogger responds "accepted" to every kind. This
# server responds "accepted" to the first and "accepted 2" to the others.

require "gyre/log/wire/identity"
require "gyre/log/wire"
require "ipaddr"

module Gyre
  module Log
    class Handshake
      # `kind` is :analogger, :records, :tail, :status or :reopen. `rest` has the bytes after the
      # frame, `words` an acknowledged client's further words.
      Request = Struct.new(:kind, :service, :client_id, :rest, :words) { def response = kind == :analogger ? "accepted\n" : "accepted 2\n" }

      TAKEN = "the client id is another client's"
      VERSIONED = %r{\Aauthentication/(\d+)(?: +(\S.*?))? *\z}n.freeze
      CLIENT = /\Aclient=(\h{32})(?: +secret=(\h{32}))?((?: +[a-z]+=[^ ]*)*)\z/n.freeze

      attr_reader :denials

      # If `key` is nil, clients must send an empty key.
      def initialize(key)
        @digest = digest(key.to_s)
        @denials = Denials.new
      end

      # Returns a Request, nil (incomplete frame), :denied (wrong key), or a fault as a String.
      def read(bytes)
        frame = Wire.authentication(bytes)
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
        when "tail", "status", "reopen" then make(match[2].to_sym, frame)
        when CLIENT then records(frame, *Regexp.last_match.captures)
        else "malformed authentication"
        end
      end

      def records(frame, client_id, secret, words)
        client_id = client_id.downcase
        Identity.proven?(client_id, secret&.downcase) ? make(:records, frame, client_id, words) : TAKEN
      end

      def make(kind, frame, client_id = nil, words = "") = Request.new(kind, frame[:service], client_id, frame[:rest], words)
    end

    # Counts wrong keys by address. After FREE wrong keys, delays the responses and stops the
    # reports, so that guesses are slow and do not fill the log. Called by Gyre::Log::Connection.
    # Right keys are never delayed, because their clients may have a guesser's address.
    class Denials
      FREE = 10
      WITHIN_S = 60
      # Seconds of a delay; shorter than the clients' time limit for a response.
      DELAY_S = 2.0
      ADDRESSES_LIMIT = 1000
      Count = Struct.new(:since_s, :number)

      def initialize(delay_s: DELAY_S)
        @delay_s = delay_s
        @counts = {} # oldest first
      end

      # Counts a wrong key. Returns the delay in seconds, and a report, which is nil if none is due.
      def add(host, now_s)
        number = count(network(host.to_s), now_s).number += 1
        return [0, "the key is wrong"] if number <= FREE

        [@delay_s, ("the key is wrong, #{number} times within #{WITHIN_S} s: further ones are answered late and not reported" if number == FREE + 1)]
      end

      private

      def count(network, now_s)
        former = @counts.delete(network)
        former = nil if former && now_s - former.since_s >= WITHIN_S
        @counts.shift if @counts.size >= ADDRESSES_LIMIT
        @counts[network] = former || Count.new(now_s, 0)
      end

      # A machine may use all addresses of its IPv6 network (RFC 4291, section 2.5.4).
      def network(host)
        host.include?(":") ? IPAddr.new(host[/\A[^%]*/]).mask(64).to_s : host
      rescue IPAddr::Error
        host
      end
    end
  end
end
