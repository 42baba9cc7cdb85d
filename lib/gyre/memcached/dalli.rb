# frozen_string_literal: true

# `require "gyre/memcached/dalli"`: Dalli::Client by Gyre's client, for programs and libraries of
# the dalli gem (Rails' :mem_cache_store, Rack::Session::Dalli). A later `require "dalli"` changes
# nothing, with or without the gem.

if defined?(Dalli)
  raise LoadError, "require gyre/memcached/dalli: the dalli gem is loaded already. Require this before it, or leave dalli out of the Gemfile"
end

require "json"
require "logger"
require "gyre" # it may be all that a Gemfile requires, and brings Rails' railtie
require "gyre/memcached"
require "gyre/memcached/dalli/client"

$LOAD_PATH.unshift(File.join(__dir__, "dalli", "features"))

# The gem's public classes.
module Dalli
  VERSION = "5.3.2"
  MIN_SUPPORTED_MEMCACHED_VERSION = "1.6"

  DalliError = Gyre::Memcached::Error
  NetworkError = Gyre::Memcached::NetworkError
  RingError = Gyre::Memcached::NoServerError
  ServerError = Gyre::Memcached::ServerError
  MarshalError = Gyre::Memcached::SerializationError
  UnmarshalError = Gyre::Memcached::DeserializationError
  NotPermittedMultiOpError = Gyre::Memcached::NotPermittedInQuiet

  # For programs that rescue them; this client retries itself, and replies are in order.
  class RetryableNetworkError < NetworkError; end
  class UnexpectedReplyKeyError < DalliError; end

  Compressor = Gyre::Memcached::ZLIB
  GzipCompressor = Gyre::Memcached::GZIP
  CacheResult = Gyre::Memcached::Result

  # `get`'s result for a missing key with `cache_nils: true`.
  NOT_FOUND = Gyre::Memcached::NOT_FOUND

  # Thread.current[QUIET] is true in quiet blocks.
  QUIET = :dalli_multi

  # A DalliError, as in Dalli.
  class ValueOverMaxSize < DalliError; end

  # JSON without other classes' objects.
  module JSONSerializer
    def self.dump(value) = JSON.generate(value)

    def self.load(bytes) = JSON.parse(bytes)
  end

  class << self
    attr_writer :logger

    def logger = @logger ||= (defined?(Rails) && Rails.respond_to?(:logger) && Rails.logger) || Logger.new($stdout, level: Logger::INFO)
  end
end
