# frozen_string_literal: true

# `require "gyre/memcached/dalli"` defines Dalli::Client on Gyre's client, for programs and
# libraries that use the dalli gem (Rails' :mem_cache_store, Rack::Session::Dalli). A later `require
# "dalli"` succeeds and changes nothing, whether or not the gem is installed.

if defined?(Dalli)
  raise LoadError, "require gyre/memcached/dalli: the dalli gem is loaded already. Require this before it, or leave dalli out of the Gemfile"
end

require "json"
require "gyre" # loads Rails' railtie, if a Gemfile requires only this file
require "gyre/logger"
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

  # Never raised; defined for programs that rescue them.
  class RetryableNetworkError < NetworkError; end
  class UnexpectedReplyKeyError < DalliError; end

  Compressor = Gyre::Memcached::ZLIB
  GzipCompressor = Gyre::Memcached::GZIP
  CacheResult = Gyre::Memcached::Result

  # The result of `get` for a missing key if `cache_nils: true` is given.
  NOT_FOUND = Gyre::Memcached::NOT_FOUND

  # Thread.current[QUIET] is true in quiet blocks.
  QUIET = :dalli_multi

  class ValueOverMaxSize < DalliError; end

  # Dumps as JSON; loads only the types of JSON.
  module JSONSerializer
    def self.dump(value) = JSON.generate(value)

    def self.load(bytes) = JSON.parse(bytes)
  end

  class << self
    attr_writer :logger

    def logger = @logger ||= (defined?(Rails) && Rails.respond_to?(:logger) && Rails.logger) || Logger.new($stdout, level: Logger::INFO)
  end
end
