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

require "gyre/event_machine/reactor"
require "gyre/event_machine/connection"
require "gyre/event_machine/descriptor"
require "gyre/event_machine/limits"
require "gyre/event_machine/descriptors/pipe"
require "gyre/event_machine/descriptors/stream"
require "gyre/event_machine/descriptors/client"
require "gyre/event_machine/descriptors/keyboard"
require "gyre/event_machine/descriptors/child"
require "gyre/event_machine/descriptors/packets"
require "gyre/event_machine/descriptors/watched"
require "gyre/event_machine/descriptors/acceptor"
require "gyre/event_machine/deferrable"
require "gyre/event_machine/running"
require "gyre/event_machine/timers"
require "gyre/event_machine/sockets"
require "gyre/event_machine/completion"
require "gyre/event_machine/queue"
require "gyre/event_machine/channel"
require "gyre/event_machine/pool"
require "gyre/event_machine/iterator"
require "gyre/event_machine/tick_loop"
require "gyre/event_machine/spawned_process"
require "gyre/event_machine/threaded_resource"
require "gyre/event_machine/buffered_tokenizer"
require "gyre/event_machine/resolver"
require "gyre/event_machine/protocols"
require "gyre/event_machine/threads"
require "gyre/event_machine/processes"
require "gyre/event_machine/files"
require "gyre/event_machine/proxies"
require "gyre/event_machine/tuning"
require "gyre/event_machine/tls"
require "gyre/event_machine/functions"
