# frozen_string_literal: true

# What bench/dns starts: the servers, with the same zone of 4,000 names each, and dnsperf, their
# load. Their files are below tmp/bench/dns.

require "io/wait"
require "open3"
require "resolv"
require_relative "server"
require_relative "setup"

module Bench
  # Servers by name.
  module DNSServers
    NAMES = 4000
    ZONES = 20_000
    FOLDER = File.join(WORK, "dns")

    module_function

    def start(subject, *arguments, core: SERVER_CORE)
      write_files
      environment = subject.match?(/gyre|rubydns/) ? Setup.gem_environment.merge(Setup.yjit_environment) : {}
      Server.new("dns-#{subject}", environment, core: core) { |port| command(subject, port, *arguments) }.start.tap { |server| await(server.port) }
    end

    # nsd accepts connections before it has read its zones.
    def await(port)
      query = Resolv::DNS::Message.new(1).tap { |message| message.add_question("www.zone1.test", Resolv::DNS::Resource::IN::A) }.encode
      TCPSocket.open("127.0.0.1", port) do |socket|
        socket.write([query.bytesize].pack("n"), query)
        socket.wait_readable(Server::READY_WITHIN_S) or raise Problem, "no answer at port #{port}"
      end
    end

    def command(subject, port, *arguments)
      case subject
      when "dnsmasq" then dnsmasq(port, "--addn-hosts=#{path('hosts')}", "--local-ttl=60")
      when "dnsmasq-passthrough" then dnsmasq(port, "--cache-size=0", "--dns-forward-max=20000", "--server=127.0.0.1##{arguments.first}")
      when "dnsmasq-forwarder" then dnsmasq(port, "--cache-size=10000", "--server=127.0.0.1##{arguments.first}")
      when "unbound-forwarder" then [Setup.program("unbound"), "-d", "-c", unbound_configuration(port, *arguments)]
      when "nsd-zones" then [Setup.program("nsd"), "-d", "-c", nsd_configuration(port, zones: zones, file: "zone-of-many")]
      when "nsd" then [Setup.program("nsd"), "-d", "-c", nsd_configuration(port, *arguments)]
      else
        arguments = [path("zone")] if subject == "gyre-zone"
        arguments = [path("zone-of-many"), ZONES.to_s] if subject == "gyre-zones"
        Setup.ruby_command(File.join(ROOT, "bench/apps/dns_server.rb"), subject, port.to_s, *arguments)
      end
    end

    # Runs dnsperf; returns its figures.
    def load(port, *options, queries: "queries")
      output, = Open3.capture2e("taskset", "-c", LOAD_CORE.to_s, "dnsperf", "-s", "127.0.0.1", "-p", port.to_s, "-d", path(queries), *options)
      completed = output[/Queries completed:\s+(\d+)/, 1].to_i
      raise Problem, "dnsperf: #{output.lines.last(8).join}" if completed.zero?

      good = output[/Response codes:.*?NOERROR (\d+)/, 1].to_i
      raise Problem, "#{completed - good} of #{completed} answers are wrong" if good < completed

      { answers: completed, seconds: output[/Run time \(s\):\s+([\d.]+)/, 1].to_f, lost: output[/Queries lost:\s+(\d+)/, 1].to_i, output: output }
    end

    def path(name) = File.join(FOLDER, name)

    def dnsmasq(port, *options)
      [Setup.program("dnsmasq"), "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--pid-file=", "--port=#{port}",
       "--listen-address=127.0.0.1", "--bind-interfaces", *("--user=root" if Process.uid.zero?), *options]
    end

    # Another address is one more, at port 53, which a resolv.conf can name.
    def nsd_configuration(port, address = nil, zones: ["bench.test"], file: "zone")
      path("nsd-#{port}.conf").tap do |configuration|
        File.write(configuration, <<~TEXT + zones.map { |name| "zone:\n  name: #{name}\n  zonefile: #{file}\n" }.join)
          server:
            ip-address: 127.0.0.1
            #{"ip-address: #{address}@53" if address}
            port: #{port}
            server-count: 1
            username: ""
            chroot: ""
            zonesdir: "#{FOLDER}"
            database: ""
            pidfile: ""
            xfrdfile: "#{path("nsd-#{port}.xfrd")}"
            zonelistfile: "#{path("nsd-#{port}.list")}"
            rrl-ratelimit: 0
          remote-control:
            control-enable: no
        TEXT
      end
    end

    def unbound_configuration(port, upstream)
      path("unbound-#{port}.conf").tap do |configuration|
        File.write(configuration, <<~TEXT)
          server:
            interface: 127.0.0.1
            port: #{port}
            username: ""
            chroot: ""
            directory: "#{FOLDER}"
            pidfile: ""
            use-syslog: no
            do-not-query-localhost: no
            module-config: "iterator"
            local-zone: "test." nodefault
          remote-control:
            control-enable: no
          forward-zone:
            name: "."
            forward-addr: 127.0.0.1@#{upstream}
        TEXT
      end
    end

    def zones = Array.new(ZONES) { |index| "zone#{index}.test" }

    def write_files
      return if @written

      FileUtils.mkdir_p(FOLDER)
      names = Array.new(NAMES) { |index| "name#{index}" }
      File.write(path("zone"), "$ORIGIN bench.test.\n$TTL 60\n@ SOA ns admin 1 3600 600 86400 60\n@ NS ns\nns A 192.0.2.53\n" +
                               names.map { |name| "#{name} A 192.0.2.1\n" }.join)
      File.write(path("hosts"), names.map { |name| "192.0.2.1 #{name}.bench.test\n" }.join)
      File.write(path("queries"), names.map { |name| "#{name}.bench.test A\n" }.join)
      File.write(path("zone-of-many"), "$TTL 60\n@ SOA ns admin 1 3600 600 86400 60\n@ NS ns\nns A 192.0.2.53\nwww A 192.0.2.1\n")
      File.write(path("queries-of-zones"), zones.map { |zone| "www.#{zone} A\n" }.join)
      @written = true
    end
  end
end
