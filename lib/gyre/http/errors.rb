# frozen_string_literal: true

# Errors of HTTP, by cause: the client (RequestError, RequestCut), a slow client (WriteTimeout) or
# the app (LengthError, RequestTimeout). Response raises LengthError, the connection raises the
# others. Service handles all.

require "gyre/errors"

module Gyre
  module HTTP
    # The request's body is too slow (408), is too long (413), has a bad chunk (400) or has too many
    # trailers (431). If the app does not rescue the error, the client gets its status.
    class RequestError < Gyre::ProtocolError; end

    # The client closed the connection before the announced end of the request's body.
    class RequestCut < EOFError; end

    # The client read nothing for too long; the connection is closed.
    class WriteTimeout < IOError; end

    # Raised at the app's current wait if the request exceeds limits.request_timeout_s. Not a
    # StandardError, so that `rescue => error` does not swallow it. If the app does not rescue it,
    # the client gets 503.
    class RequestTimeout < Exception; end # rubocop:disable Lint/InheritException

    # The app's body has more or fewer bytes than its content-length.
    class LengthError < StandardError; end
  end
end
