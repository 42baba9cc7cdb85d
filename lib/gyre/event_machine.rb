# frozen_string_literal: true

# Gyre::EventMachine provides the functions of the gem eventmachine on Gyre's loop. The drop-in
# (event_machine/features) adds the gem's name. Reactor runs callbacks. The classes in descriptors/
# send and receive.
require "gyre/core"

Gyre::Loop.require_native("Gyre::EventMachine")

module Gyre
  # See docs/event_machine.md.
  module EventMachine
    # An address that cannot be bound or connected to.
    class ConnectionError < RuntimeError; end
    # Defined for programs that rescue it; Gyre never raises it.
    class ConnectionNotBound < RuntimeError; end
    # (see ConnectionNotBound)
    class UnknownTimerFired < RuntimeError; end
    # The system or this build does not support the call.
    class Unsupported < RuntimeError; end
    # No connection or watch has the signature.
    class InvalidSignature < RuntimeError; end
    # (see ConnectionNotBound)
    class NoHandlerForAcceptedConnection < RuntimeError; end
    # Arguments of start_tls exclude each other, or a required argument is missing.
    class BadParams < RuntimeError; end
    # (see BadParams)
    class BadCertParams < BadParams; end
    # (see BadParams)
    class BadPrivateKeyParams < BadParams; end
    # libssl refuses a key or a certificate given to start_tls.
    class InvalidPrivateKey < RuntimeError; end
    # The file to send or to watch is missing.
    class FileNotFoundException < RuntimeError; end

    autoload :BufferedTokenizer, "gyre/event_machine/protocols/lines"

    # Wire protocols for connections. Each is loaded at its first use.
    module Protocols
      {
        "lines" => %i[LineText2 LineProtocol LineAndTextProtocol HeaderAndContentProtocol],
        "sized_fields" => %i[ObjectProtocol SASLauth SASLauthclient],
        "http_client" => %i[HttpClient HttpClient2],
        "memcache" => %i[Memcache], "smtp_client" => %i[SmtpClient], "smtp_server" => %i[SmtpServer], "stomp" => %i[Stomp]
      }.each { |file, names| names.each { |name| autoload name, "gyre/event_machine/protocols/#{file}" } }
    end
    # The name that old programs use.
    P = Protocols
  end
end

%w[reactor connection descriptor descriptors/stream descriptors/sockets descriptors/watched deferrable running timers
   sockets queues iterator resolver threads files processes proxies tuning tls].each { |part| require "gyre/event_machine/#{part}" }
