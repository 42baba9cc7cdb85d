# frozen_string_literal: true

# A DNS server in a thread, on free ports of 127.0.0.1, and a client of plain sockets.
require "socket"
require "tempfile"
require "gyre/dns"

module GyreTest
  module DNSServing
    ZONE = <<~TEXT
      $ORIGIN example.org.
      $TTL 1h
      @       IN SOA ns root ( 1 2h 30m 2w 5m )
              NS ns
              NS ns.example.net.
              MX 10 mail
      ns      A 192.0.2.53
      mail    A 192.0.2.25
              AAAA 2001:db8::25
      www     CNAME web
      web  60 A 192.0.2.80
      *.wild  TXT "a b" c
      sub     NS ns.sub
      ns.sub  A 192.0.2.99
      a.b.c   A 192.0.2.3
      loop    CNAME loop
      far     CNAME www.example.com.
      to      CNAME a.other.example.
      type    TYPE65280 \\# 3 abcdef
      long    TXT "#{"x" * 200}" "#{"y" * 200}" "#{"z" * 200}"
    TEXT
    OTHER = "$TTL 60\n@ SOA ns root 1 2 3 4 5\n  NS ns\nns A 192.0.2.1\na A 192.0.2.2\n"

    IN = Resolv::DNS::Resource::IN

    # Yields the server while it runs. The block of rules comes as `rules`.
    def serve(*endpoints, rules: proc {}, **settings)
      endpoints = ["127.0.0.1:0"] if endpoints.empty?
      server = Gyre::DNS::Server.new(*endpoints, **settings, &rules)
      started = Thread::Queue.new
      thread = Thread.new do
        server.run { started.push(true) }
      ensure
        started.push(false)
      end
      thread.report_on_exception = false
      started.pop || thread.value
      yield server
    ensure
      server&.stop
      thread&.value
      @zone_files&.each(&:close!)&.clear
    end

    def zone_file(text = ZONE)
      file = Tempfile.new("gyre-zone")
      file.write(text)
      file.flush
      (@zone_files ||= []) << file
      file.path
    end

    # Rules with the zones of these texts.
    def zones(texts = { "example.org" => ZONE }, &more)
      files = texts.transform_values { |text| zone_file(text) }
      proc do
        files.each { |origin, path| zone(origin, path) }
        instance_eval(&more) if more
      end
    end

    # Sends bytes over UDP. Returns the response's bytes, or nil after `within_s`.
    def exchange(server, bytes, to: "127.0.0.1", within_s: 10)
      UDPSocket.open(to.include?(":") ? Socket::AF_INET6 : Socket::AF_INET) do |socket|
        socket.connect(to, server.port)
        socket.send(bytes, 0)
        socket.recv(65_535) if socket.wait_readable(within_s)
      end
    end

    # Nothing is answered: the response of a request behind it comes first.
    def unanswered?(server, bytes)
      UDPSocket.open do |socket|
        socket.connect("127.0.0.1", server.port)
        socket.send(bytes, 0)
        socket.send(Gyre::DNS::Message.query("last.invalid", "A", id: 4711).encode, 0)
        socket.wait_readable(10) or flunk "no response at all"
        socket.recv(65_535).unpack1("n") == 4711
      end
    end

    # Asks over UDP, without EDNS unless it is given.
    def ask(server, name, type = "A", edns: nil, **options)
      query = Gyre::DNS::Message.query(name, type, id: 7, edns: edns, flags: options.delete(:flags) || 0)
      Gyre::DNS::Message.parse(exchange(server, query.encode, **options))
    end

    def edns(size = 1232, flags: 0, version: 0, options: []) = Gyre::DNS::EDNS.new(size, version, flags, options)

    # The records of a section, as text.
    def texts(records) = records.map { |record| "#{record.name} #{record.ttl} #{Gyre::DNS.type_name(record.type)}" }

    def framed(message) = [message.bytesize].pack("n") << message

    def read_framed(socket) = socket.read(2)&.then { |length| Gyre::DNS::Message.parse(socket.read(length.unpack1("n"))) }
  end
end
