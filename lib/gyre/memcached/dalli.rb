# frozen_string_literal: true

# `require "gyre/memcached/dalli"`: Dalli::Client is Gyre's, so that programs and libraries written
# for the dalli gem (Rails' :mem_cache_store, Rack::Session::Dalli) run on it unchanged. From then
# on `require "dalli"` finds this, whether the gem is installed or not.

if defined?(Dalli)
  raise LoadError, "require gyre/memcached/dalli: the dalli gem is loaded already. Require this before it, or leave dalli out of the Gemfile"
end

require "json"
require "logger"
require "gyre" # it may be all that a Gemfile requires, and Rails' railtie comes with it
require "gyre/memcached"
require "gyre/memcached/dalli/client"

$LOAD_PATH.unshift(File.join(__dir__, "dalli", "features"))

# What programs use of the dalli gem. Its inner classes (Ring, KeyManager, …) are not here.
module Dalli
  # The release of the gem whose methods these are.
  VERSION = "5.3.2"
  MIN_SUPPORTED_MEMCACHED_VERSION = "1.6"

  DalliError = Gyre::Memcached::Error
  NetworkError = Gyre::Memcached::NetworkError
  RingError = Gyre::Memcached::NoServerError
  ServerError = Gyre::Memcached::ServerError
  MarshalError = Gyre::Memcached::SerializationError
  UnmarshalError = Gyre::Memcached::DeserializationError
  NotPermittedMultiOpError = Gyre::Memcached::NotPermittedInQuiet

  # For programs that rescue them. The client retries by itself, and replies are in order.
  class RetryableNetworkError < NetworkError; end
  class UnexpectedReplyKeyError < DalliError; end

  Compressor = Gyre::Memcached::ZLIB
  GzipCompressor = Gyre::Memcached::GZIP
  CacheResult = Gyre::Memcached::Result

  # What `get` returns for a missing key when it is called with `cache_nils: true`.
  NOT_FOUND = Gyre::Memcached::NOT_FOUND

  # Thread.current[QUIET] is true in a quiet block.
  QUIET = :dalli_multi

  # Raised for a value over the limit: a DalliError, as users of Dalli rescue it.
  class ValueOverMaxSize < DalliError; end

  # JSON, without objects of other classes.
  module JSONSerializer
    # @param value [Object]
    # @return [String]
    def self.dump(value) = JSON.generate(value)

    # @param bytes [String]
    # @return [Object]
    def self.load(bytes) = JSON.parse(bytes)
  end

  class << self
    # @param logger [Logger]
    attr_writer :logger

    # @return [Logger] Rails' where there is one
    def logger
      @logger ||= (defined?(Rails) && Rails.respond_to?(:logger) && Rails.logger) || Logger.new($stdout, level: Logger::INFO)
    end
  end
end
