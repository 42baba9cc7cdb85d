# frozen_string_literal: true

# The errors that only HTTP/1 has, sorted by what is at fault: the client (RequestError,
# RequestCut), its slowness (WriteTimeout), the app (LengthError, RequestTimeout). The connection
# raises all but LengthError, Service decides what becomes of them.

require "gyre/errors"

module Gyre
  module HTTP
    # The request that is being served turned out wrong while its body was read: too slow (408), too
    # long (413), a bad chunk (400) or too many trailers (431). An app may rescue it and respond by
    # itself; if not, the client gets that status.
    class RequestError < Gyre::ProtocolError; end

    # The client left before the end of the body that it had announced.
    class RequestCut < EOFError; end

    # The client took nothing of its response for too long; the connection has been closed.
    class WriteTimeout < IOError; end

    # The request took longer than limits.request_timeout_s: raised in the app, at its present wait.
    # No StandardError, so that a `rescue => error` around some work does not swallow it. An app
    # that rescues it may respond by itself; if it does not, the client gets 503.
    class RequestTimeout < Exception; end # rubocop:disable Lint/InheritException

    # The app's body has more or fewer bytes than the app's own content-length.
    class LengthError < StandardError; end
  end
end
