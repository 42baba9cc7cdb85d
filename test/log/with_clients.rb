# frozen_string_literal: true

# For tests of log clients: a folder for the spools that goes with the test, what the clients
# report, and clients that try again soon.

require "gyre/log/client"
require "tmpdir"

module GyreTest
  # Included by a test class.
  module WithLogClients
    def setup
      @spool = Dir.mktmpdir
      @reports = []
    end

    def teardown
      FileUtils.rm_rf(@spool)
    end

    # A client of that server; closed after the block, if there is one.
    def client(server, service = "app", **options)
      client = Gyre::Log::Client.new(service, port: server.port, spool: @spool, retry_interval: 0.02..0.1,
                                              report: ->(text) { @reports << text }, **options)
      return client unless block_given?

      begin
        yield client
      ensure
        client.close(0)
      end
    end
  end
end
