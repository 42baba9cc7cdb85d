# frozen_string_literal: true

# EventMachine's protocols, each loaded at its first use.

module Gyre
  module EventMachine
    # Wire protocols for connections.
    module Protocols
      autoload :HeaderAndContentProtocol, "gyre/event_machine/protocols/header_and_content"
      autoload :HttpClient, "gyre/event_machine/protocols/http_client"
      autoload :HttpClient2, "gyre/event_machine/protocols/http_client2"
      autoload :HttpResponses, "gyre/event_machine/protocols/http_responses"
      autoload :LineAndTextProtocol, "gyre/event_machine/protocols/line_and_text"
      autoload :LineProtocol, "gyre/event_machine/protocols/line_protocol"
      autoload :LineText2, "gyre/event_machine/protocols/line_text2"
      autoload :Memcache, "gyre/event_machine/protocols/memcache"
      autoload :ObjectProtocol, "gyre/event_machine/protocols/object_protocol"
      autoload :SASLauth, "gyre/event_machine/protocols/sasl_auth"
      autoload :SASLauthclient, "gyre/event_machine/protocols/sasl_auth"
      autoload :SmtpClient, "gyre/event_machine/protocols/smtp_client"
      autoload :SmtpServer, "gyre/event_machine/protocols/smtp_server"
      autoload :Stomp, "gyre/event_machine/protocols/stomp"
    end
    P = Protocols
  end
end
