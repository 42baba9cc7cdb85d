# frozen_string_literal: true

# Where a log client's messages become records, until its sender takes them. Gyre::Log::Client appends from any thread, fiber or
# signal handler; Gyre::Log::Sender takes. It knows no socket and wakes no thread: it tells its caller when to do so.
#
# The work is done in C, by Gyre::Log::NativeOutbox (ext/gyre/log/log_outbox.c), which keeps this contract:
#
#   Outbox.new(service, limit, record_limit, framed)
#       limit         bytes of records, those included that the sender holds; one record may always be in
#       record_limit  bytes of one record
#       framed        refuse what a frame of the old wire cannot carry
#   append(severity, message) → true: it is in;  nil: it is in, and the sender has to be woken;  false: it is not in, because of
#       a limit, of attention, of a fork, or since it is no String in UTF-8, US-ASCII or BINARY with a severity that is a String,
#       a Symbol or a number of Logger's (with UNKNOWN as "fatal", since servers drop severities that they do not know)
#   store(severity, message, beyond_limit) → as append, whatever attention is, and perhaps beyond the limit
#   attention, attention=   while true, append refuses everything: the caller has to look
#   framed, framed=         whether what a frame cannot carry is refused
#   take → [String of whole records, last sequence number, count], or nil
#   await → true: nothing is in, and the next append answers nil;  false: something is
#   awake            the next append need not wake the sender
#   held, held=      bytes that were taken and still count
#   bytesize         of what is in;  sequence: the last number that was given, 1 for the first record
#   forked?          this process was forked since;  reset: as new, for this process;  stay: as it is, for this process
#
# and, as methods of the class, what is asked of taken bytes:
#
#   measure(bytes, record_limit) → [bytes of the whole and undamaged records at the beginning, their count, last sequence number]
#   after(bytes, sequence) → where the first record with a higher number begins
#   frames(bytes) → the old wire's frames of these records; nil when one cannot be carried
#   framed(bytes, n) → where the first record begins whose frame is not wholly in the first n bytes of the frames

require "gyre/loop"

module Gyre
  module Log
    # See the head of this file.
    module Outbox
      class << self
        # @return [Class]
        # @raise [ExtensionRequired] without the C extension
        def implementation
          Loop.require_native("the log client")
          NativeOutbox
        end

        # @param service [String]
        # @param limit [Integer]
        # @param record_limit [Integer]
        # @param framed [Boolean]
        # @return [NativeOutbox]
        def new(service, limit, record_limit, framed)
          implementation.new(service, limit, record_limit, framed)
        end
      end
    end
  end
end
