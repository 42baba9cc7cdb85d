# frozen_string_literal: true

# Errors of HTTP by origin: client (RequestError, RequestCut), slow client (WriteTimeout), app
# (LengthError, RequestTimeout). The connection raises all but LengthError; Service handles them.

require "gyre/errors"

module Gyre
  module HTTP
    # A fault in a request's body: too slow (408), too long (413), a bad chunk (400), too many
    # trailers (431). If the app does not rescue it, the client gets that status.
    class RequestError < Gyre::ProtocolError; end

    # The client closed before the announced end of its body.
    class RequestCut < EOFError; end

    # The client read nothing for too long; the connection is closed.
    class WriteTimeout < IOError; end

    # The request exceeded limits.request_timeout_s; raised at the app's current wait. Not a
    # StandardError, so that `rescue => error` does not swallow it. If the app does not rescue it,
    # the client gets 503.
    class RequestTimeout < Exception; end # rubocop:disable Lint/InheritException

    # The app's body has more or fewer bytes than its content-length.
    class LengthError < StandardError; end
  end
end
