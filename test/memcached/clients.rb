# frozen_string_literal: true

# What the tests of the memcached client's faults share: clients and servers of each kind (plain
# TCP, TLS, Unix socket) that end with the test, jobs that are fibers or threads, and values by
# which a reply that went to another call is found.
require "gyre/memcached"
require "support/fault_relay"
require "support/memcached_server"
require "support/openssl_peer"
require "support/scripted_memcached"
require "support/transports"

module MemcachedClients
  include GyreTest::Transports
  include GyreTest::MemcachedServers

  KINDS = %i[plain tls unix].freeze
  # Fibers of one loop, or threads without one.
  JOBS = %i[fibers threads].freeze
  Failure = Gyre::Memcached::Error

  def fibers? = @jobs_kind == :fibers

  def with_jobs(jobs, &block)
    @jobs_kind = jobs
    concurrently(&block)
  end

  # Returns what the job's block returned, or the error that it raised, without its own report.
  def outcome
    yield
  rescue Failure, Gyre::TimeoutError => error
    error
  end

  def value_of(key) = "the value of #{key}"

  def options_of(kind)
    kind == :tls ? { ssl_context: GyreTest::OpenSSLPeer.client(ca: certificates.authority) } : {}
  end

  # Its limit of time is one that no test waits for, unless it is given another one.
  def client(addresses, kind: :plain, **options)
    (@clients ||= []) << Gyre::Memcached::Client.new(addresses, socket_timeout: 60, **options_of(kind), **options)
    @clients.last
  end

  def scripted(kind = :plain, keys: [], &script)
    server = GyreTest::ScriptedMemcached.new(unix: kind == :unix, tls: (GyreTest::Transports.identity("server") if kind == :tls), &script)
    (@scripted ||= []) << server
    keys.each { |key| server.store(key, value_of(key)) }
    server
  end

  def memcached_of(kind)
    kind == :tls ? secure_memcached : memcached(unix: kind == :unix)
  end

  def relay(server, **faults)
    (@relays ||= []) << GyreTest::FaultRelay.new(server.address, **faults)
    @relays.last
  end

  # The key's own value, or an error that names the server and the command.
  def assert_own(key, result, server, command = "get", message = nil)
    return assert_equal(value_of(key), result, message) unless result.is_a?(Exception)

    assert_includes result.message, server.address, message
    assert_includes result.message, command, message unless result.is_a?(Gyre::Memcached::NoServerError)
  end

  def release_clients
    @clients&.each(&:close)
    @relays&.each(&:close)
    @scripted&.each(&:close)
    [@clients, @relays, @scripted].each { |each| each&.clear }
  end

  def teardown
    release_clients
    super
  end
end
