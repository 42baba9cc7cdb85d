# frozen_string_literal: true

# Debian's pebble for tests: an authority that speaks ACME, on free ports, and a DNS server for
# which each name is on this machine, and which may have other rules.
require "fileutils"
require "json"
require "support/certificates"
require "support/dns_serving"
require "tmpdir"

module GyreTest
  class Pebble
    NONCES_REFUSED = 30 # of a hundred
    # Of the customer's account that each account must be bound to.
    KEY_ID = "customer"
    KEY = ["a secret of 32 bytes for tests!!"].pack("m0").tr("+/", "-_").delete("=")

    attr_reader :http_port, :tls_port # where it expects the answers to http-01 and tls-alpn-01
    attr_reader :ca # of its own https
    attr_reader :identity # certificate and key of localhost by that authority

    # `rules`: Ruby code as of `gyre dns -c`.
    def initialize(program, rules: "")
      @program = program
      @rules = rules
      @folder = Dir.mktmpdir("gyre-pebble").tap { |folder| File.chmod(0o711, folder) } # other users read the authority
      @ca = (certificates = Certificates.new(@folder)).authority
      @identity = certificates.issue("localhost")
      serve_dns
      tries = 0
      begin
        start
      rescue RuntimeError # another program has taken a port
        (tries += 1) < 5 ? retry : raise
      end
    end

    def directory = "https://localhost:#{@port}/dir"

    def name_server = "127.0.0.1:#{@dns.port}"

    def binding = "#{KEY_ID}:#{KEY}"

    def tls = Gyre::TLS.client(ca: @ca)

    def close
      Process.kill(:KILL, @pid)
      Process.wait(@pid)
      @dns.stop
      @thread.join
      FileUtils.rm_rf(@folder)
    end

    private

    def serve_dns
      rules = @rules
      @dns = Gyre::DNS::Server.new("127.0.0.1:0") do
        instance_eval(rules)
        match(//, DNSServing::IN::A) { |transaction| transaction.respond!("127.0.0.1", ttl: 1) }
        otherwise { |transaction| transaction }
      end
      started = Thread::Queue.new
      @thread = Thread.new { @dns.run { started << true } }
      started.pop
    end

    def start
      @port, management, @http_port, @tls_port = free_ports(4)
      config = { listenAddress: "127.0.0.1:#{@port}", managementListenAddress: "127.0.0.1:#{management}", certificate: @identity[0],
                 privateKey: @identity[1], httpPort: @http_port, tlsPort: @tls_port, externalAccountBindingRequired: true,
                 externalAccountMACKeys: { KEY_ID => KEY } }
      File.write(File.join(@folder, "config.json"), JSON.generate(pebble: config))
      environment = { "PEBBLE_VA_NOSLEEP" => "1", "PEBBLE_WFE_NONCEREJECT" => NONCES_REFUSED.to_s, "PEBBLE_AUTHZREUSE" => "0",
                      "PEBBLE_CHAIN_LENGTH" => "2" }
      @pid = spawn(environment, @program, "-strict", "-config", "config.json", "-dnsserver", "127.0.0.1:#{@dns.port}", chdir: @folder,
                                                                                                           out: File::NULL, err: File::NULL)
      until answers?
        raise "pebble has ended" if Process.wait(@pid, Process::WNOHANG)

        sleep 0.02
      end
    end

    def free_ports(count)
      servers = Array.new(count) { TCPServer.new("127.0.0.1", 0) }
      servers.map { |server| server.addr[1] }
    ensure
      servers&.each(&:close)
    end

    def answers?
      TCPSocket.open("127.0.0.1", @port, &:close).nil?
    rescue Errno::ECONNREFUSED
      false
    end
  end
end
