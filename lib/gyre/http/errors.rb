# frozen_string_literal: true

# Errors of HTTP, sorted by their origin: the client (RequestError, RequestCut), a slow client
# (WriteTimeout), the app (LengthError, RequestTimeout). The connection raises all but LengthError;
# Service handles them.

require "gyre/errors"

module Gyre
  module HTTP
    # A fault in a request's body, found while reading: too slow (408), too long (413), a bad chunk
    # (400) or too many trailers (431). An app may rescue it and respond; otherwise the client gets
    # that status.
    class RequestError < Gyre::ProtocolError; end

    # The client closed before the announced end of its body.
    class RequestCut < EOFError; end

    # The client read nothing of its response for too long; the connection is closed.
    class WriteTimeout < IOError; end

    # The request exceeded limits.request_timeout_s: raised in the app, at its current wait. Not a
    # StandardError: a `rescue => error` does not swallow it. An app may rescue it and respond;
    # otherwise the client gets 503.
    class RequestTimeout < Exception; end # rubocop:disable Lint/InheritException

    # The app's body has more or fewer bytes than its content-length.
    class LengthError < StandardError; end
  end
end
