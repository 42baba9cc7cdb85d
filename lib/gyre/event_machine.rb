# frozen_string_literal: true

# Gyre::EventMachine: the functions of the gem eventmachine on Gyre's loop. The drop-in
# (event_machine/features) gives them the gem's name. Reactor runs callbacks, descriptors/ moves
# bytes.
require "gyre"
require "gyre/net"

module Gyre
  # See docs/event_machine.md.
  module EventMachine
    # An address that cannot be bound or connected to.
    class ConnectionError < RuntimeError; end
    # Kept for programs that rescue it; never raised here.
    class ConnectionNotBound < RuntimeError; end
    # (see ConnectionNotBound)
    class UnknownTimerFired < RuntimeError; end
    # The system or this build lacks the call.
    class Unsupported < RuntimeError; end
    # A signature without an owner.
    class InvalidSignature < RuntimeError; end
    # (see ConnectionNotBound)
    class NoHandlerForAcceptedConnection < RuntimeError; end
    # Arguments of start_tls that exclude each other, or need another one.
    class BadParams < RuntimeError; end
    # (see BadParams)
    class BadCertParams < BadParams; end
    # (see BadParams)
    class BadPrivateKeyParams < BadParams; end
    # A key or a certificate of start_tls that libssl refuses.
    class InvalidPrivateKey < RuntimeError; end
    # The file to send or to watch is missing.
    class FileNotFoundException < RuntimeError; end
  end
end

%w[reactor connection descriptor limits descriptors/pipe descriptors/stream descriptors/client descriptors/keyboard
   descriptors/child descriptors/packets descriptors/watched descriptors/acceptor deferrable running timers sockets
   completion queue channel pool iterator tick_loop spawned_process threaded_resource buffered_tokenizer resolver protocols
   threads files processes proxies tuning tls functions].each do |part|
  require "gyre/event_machine/#{part}"
end
