# frozen_string_literal: true

# EventMachine's protocols, each loaded at its first use.

module Gyre
  module EventMachine
    # Wire protocols for connections.
    module Protocols
      { HeaderAndContentProtocol: "header_and_content", HttpClient: "http_client", HttpClient2: "http_client2", HttpResponses: "http_responses",
        LineAndTextProtocol: "line_and_text", LineProtocol: "line_text2", LineText2: "line_text2", Memcache: "memcache",
        ObjectProtocol: "object_protocol", SASLauth: "sasl_auth", SASLauthclient: "sasl_auth", SmtpClient: "smtp_client",
        SmtpServer: "smtp_server", Stomp: "stomp" }.each { |name, file| autoload name, "gyre/event_machine/protocols/#{file}" }
    end
    P = Protocols
  end
end
