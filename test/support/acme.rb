# frozen_string_literal: true

# Certificates by ACME for test classes: Pebble, a folder, a keeper, a server with its certificate.
require "net/http"
require "stringio"
require "support/openssl_peer"
require "support/pebble"
require "gyre/web"
require "gyre/web/acme/keeper"

module GyreTest
  # Included in test classes: one authority for all tests of a class.
  module PebbleCase
    # The authority begins before the check for leaks.
    def before_setup
      program = need_program("pebble")
      self.class.instance_eval { @pebble ||= nil }
      pebble || self.class.instance_variable_set(:@pebble, begin_pebble(program)).then { |pebble| Minitest.after_run { pebble.close } }
      super
    end

    private

    def begin_pebble(program) = Pebble.new(program)

    def pebble = self.class.instance_variable_get(:@pebble)
  end

  # For tests of `gyre serve` (Serving) and `gyre ctl`.
  module ACMEPrograms
    include PebbleCase

    NAME = "www.example.org"

    private

    def plain = ["--acme", NAME, "--acme-folder", "kept", "-b", "tcp://127.0.0.1:#{pebble.http_port}", "-b", "ssl://127.0.0.1:0"]

    def trusting
      { "SSL_CERT_FILE" => pebble.ca, "ACME_DIRECTORY" => pebble.directory, "EAB_KID" => Pebble::KEY_ID, "EAB_HMAC_KEY" => Pebble::KEY }
    end

    def ctl(program, command)
      run_program(*ruby_command(Helpers::EXE, "ctl", command), chdir: program.folder).then { |run| run.out + run.err }
    end

    def secure_port(program) = Integer(program.urls.find { |url| url.start_with?("https://") }[/\d+\z/])

    def certificate(program)
      socket = OpenSSL::SSL::SSLSocket.new(TCPSocket.new("127.0.0.1", secure_port(program)), OpenSSLPeer.client)
      socket.sync_close = true
      socket.hostname = NAME
      socket.connect
      socket.peer_cert
    ensure
      socket&.close
    end

    def await_certificate(program, serial: nil)
      eventually(what: "the certificate in the workers") do
        certificate(program).then { |found| found.issuer.to_s.include?("Pebble") && [nil, found.serial].include?(serial) && found }
      end
    end
  end

  # For tests of its parts, with a folder, a keeper, and a server with its certificate.
  module ACME
    include PebbleCase
    include Gyre::Web::ACME

    NAME = "shop.example.org"

    def setup
      @folder = Dir.mktmpdir("gyre")
      @out = StringIO.new
      @log = Gyre::Web::ServerLog.new(notices: @out, errors: @out)
    end

    def teardown
      @server&.stop(now: true)
      @server&.wait
      FileUtils.rm_rf(@folder)
      super
    end

    private

    def key = Key.new(Key.generate)

    def store(directory = "https://a.test/dir", *names)
      Store.new(names.empty? ? [NAME] : names, @folder, directory).tap { |store| store.prepare(@log) }
    end

    def keeper(store = store(), plain: true, **settings, &changed)
      settings = { certificates: store, acme_directory: pebble.directory, acme_eab: pebble.binding, **settings }
      Keeper.new(settings, log: @log, plain: plain, tls: pebble.tls, &changed || -> {})
    end

    def look(keeper) = Gyre.run { keeper.look }

    def serve(store, *bind)
      bind = ["tcp://127.0.0.1:#{pebble.http_port}", "ssl://127.0.0.1:0"] if bind.empty?
      app = ->(_) { [200, { "content-type" => "text/plain" }, ["app"]] }
      settings = { https_redirect: true, ready_path: "/ready", log: @log }
      @server = Gyre::Web::Server.new(app, bind: bind, tls: store.certificates, acme: store, **settings).start
    end

    # Returns the chain that https serves.
    def chain
      socket = OpenSSL::SSL::SSLSocket.new(TCPSocket.new("127.0.0.1", @server.endpoints.last.port), OpenSSLPeer.client)
      socket.sync_close = true
      socket.hostname = NAME
      socket.connect
      socket.peer_cert_chain
    ensure
      socket&.close
    end

    def issuer = chain.first.issuer.to_s

    def killed(&block)
      _, status = Process.wait2(fork(&block))
      assert_equal 9, status.termsig
    end
  end
end
