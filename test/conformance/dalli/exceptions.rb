# frozen_string_literal: true

# The tests of Dalli that Gyre's client cannot pass under Dalli's name, by the reason. Read by
# rakelib/conformance_dalli.rake: one that passes after all fails the run.
module GyreConformance
  # Files with the tests of the client; the others are about the gem's inner classes.
  DALLI_FILES = %w[test/integration/test_*.rb test/test_{client_options,digest_class,rack_session}.rb].freeze

  meta = "using the meta protocol"
  by_reason = {
    "reaches into the gem's inner objects (its ring, its servers' connection, @options, Dalli::Protocol, …), which are others here" => [
      "Compressor::#{meta}#default to Dalli::Compressor",
      "Compressor::#{meta}#support a custom compressor",
      "Compressor::#{meta}::GzipCompressor#compress and uncompress data using Zlib::GzipWriter/Reader",
      "Serializer configuration::#{meta}#defaults to Marshal",
      "Serializer configuration::#{meta}#supports a custom serializer",
      "Dalli client options::servers configuration#accept array of servers",
      "Dalli client options::servers configuration#accept comma separated string",
      "Dalli client options::servers configuration#default to localhost:11211",
      "fiber concurrency#cleans up when @sock.close itself is interrupted by a second non-StandardError",
      "fiber concurrency#does not leave the connection dirty when a non-StandardError aborts a request",
      "fiber concurrency#does not tear down a pipelined_get when called from inside a rescue clause",
      "Network::#{meta}#handles timeout error during pipelined get",
      "Network::#{meta}#handles SSL error during read operations",
      "Network::#{meta}#handles SSL error during pipelined get",
      "Network::#{meta}#handles closed socket with IOError",
      "Network::#{meta}::assuming a bad network#opens a standard TCP connection when ssl_context is not configured",
      "Network::#{meta}::assuming a bad network#opens a SSL TCP connection when there is an SSL context set",
      "Network::#{meta}::assuming a bad network#allow TCP connections to be configured for keepalive",
      "Network::fixed-length reads#does not return a truncated value when the peer closes mid-response body",
      "operations::#{meta}::get#return the value that include TERMINATOR on a hit",
      "Pipelined Delete::#{meta}::multi-server delete_multi pipelined path#aggregates the number of keys deleted per server",
      "Pipelined Delete::#{meta}::multi-server delete_multi pipelined path#does not count keys that were not found",
      "Pipelined Delete::#{meta}::multi-server delete_multi pipelined path#does not count keys that fail to enqueue",
      "Pipelined Delete::#{meta}::single-server delete_multi fast path#retries on a transient (retryable) network error and returns the real count",
      "Pipelined Delete::#{meta}::single-server delete_multi fast path#returns 0 on a terminal (non-retryable) network error",
      "Pipelined Get::#{meta}::pipelined_get_interleaved#works with chunked requests",
      "Pipelined Get::#{meta}::pipeline_next_responses#raises NetworkError when called after pipeline_abort",
      "Pipelined Get::#{meta}::pipeline_next_responses#raises NetworkError when called before pipeline_response_setup",
      "Quiet behavior::#{meta}::quiet? method#has protocol instances that respond to quiet?",
      "Quiet behavior::#{meta}::quiet? method#has protocol instances that respond to multi?",
      "thundering herd protection::#{meta}::get_with_recache#returns stale and lost_recache for second client during vivify",
      "thundering herd protection::#{meta}::get_with_recache#vivifies on miss with N flag and returns won_recache",
      "thundering herd protection::#{meta}::get_with_recache#returns nil value for non-existent key without vivify",
      "thundering herd protection::#{meta}::get_with_recache#returns value and recache status for existing key",
      "thundering herd protection::#{meta}::delete_stale#marks item as stale instead of deleting",
      *["meta_delete with I (stale)", "meta_get with u (skip LRU bump)", "meta_get with N", "meta_get with R", "meta_get with l (last access)",
        "meta_get with h (hit status)"].map { |command| "thundering herd protection::#{meta}::request formatter#formats #{command} flag" },
      *["all metadata flags combined", "both N and R flags"]
        .map { |flags| "thundering herd protection::#{meta}::request formatter#formats meta_get with #{flags}" }
    ],
    "a warning of Dalli's that it ignores :username and :password; here they are what memcached -Y asks for, and not ignored" => [
      "authentication options#warns when username is provided",
      "authentication options#warns when credentials are embedded in memcached:// URI"
    ],
    "the error is the same, its message another: it names the command and the server" => [
      "Network::ServerError#is raised when Memcached response with a SERVER_ERROR",
      "operations::#{meta}::raw mode validation#raises MarshalError when setting nil with raw: true",
      "operations::#{meta}::raw mode validation#raises MarshalError when setting non-string with raw: true"
    ],
    "a new connection is used without asking for the version first, for which this fake server waits" => [
      "Network::#{meta}::assuming a bad network#does not retry NetworkError from down! with socket_max_failures: 0"
    ],
    "a failed TLS handshake counts as a server that is down (RingError), as in Dalli since 5.3" => [
      "Network::#{meta}::assuming a bad network#fails when SSL client connects to non-SSL server",
      "Network::#{meta}::assuming a bad network#fails when SSL verification fails due to untrusted certificate"
    ],
    "no time at all (socket_timeout: 0) is an ArgumentError" => [
      "Network::#{meta}::assuming a bad network::with a fake server#handle socket timeouts"
    ],
    "one client is shared by all threads, and its pipeline by their requests: a pool would only divide it" => [
      "Rack::Session::Dalli#upgrades to a connection pool"
    ]
  }

  # Test => why it cannot pass.
  DALLI_EXCEPTIONS = by_reason.flat_map { |reason, tests| tests.map { |test| [test, reason] } }.to_h.freeze
end
