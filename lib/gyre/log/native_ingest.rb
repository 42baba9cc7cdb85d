# frozen_string_literal: true

# The keyword arguments of the native engine's ingest, and what it does in Ruby: JSON lines. Loaded by Gyre::Log::Ingest when the
# extension is there; all else is in ext/gyre/log_ingest.c and the files below it.

require "gyre/log/framing"
require "gyre/log/portable_stream"

module Gyre
  module Log
    # See Gyre::Log::Ingest.
    class NativeIngest
      # @param services_limit [Integer] names that are counted
      def initialize(services_limit: 1000)
        setup(services_limit)
      end

      # @return [NativeSink]
      def sink(format: :text, cull: false, raw: false, limit: nil, key: "gyre")
        open_sink(format, cull, raw, limit, key)
      end

      # @return [NativeStream, PortableStream]
      def stream(kind, session: nil, limit: nil, framing: :auto)
        open_stream(kind, framing, session, limit)
      end

      # @return [NativeSession]
      def session(client_id, last = {})
        open_session(client_id, last)
      end
    end
  end
end
