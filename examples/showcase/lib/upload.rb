# frozen_string_literal: true

# Takes a file of any length and keeps none of it: reads the request's body piece by piece, as it
# arrives. On a slow line only this fiber waits in `read`.

require "digest"
require "json"

module Showcase
  # Counts the bytes of a request's body and makes the checksum that `sha256sum FILE` prints.
  class Upload
    PIECE_BYTES = 64 * 1024

    def call(env)
      body = env["rack.input"] # nil without a body (Rack 3.1)
      bytes = 0
      digest = Digest::SHA256.new
      piece = String.new(capacity: PIECE_BYTES) # reused for each read
      while body&.read(PIECE_BYTES, piece)
        bytes += piece.bytesize
        digest << piece
      end
      env["rack.logger"]&.info("#{bytes} bytes counted, SHA-256 #{digest.hexdigest}")
      [200, { "content-type" => "application/json" }, [JSON.generate(bytes: bytes, sha256: digest.hexdigest)]]
    end
  end
end
