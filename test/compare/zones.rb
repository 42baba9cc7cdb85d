# frozen_string_literal: true

# `rake compare:zones` runs this: random zones by seed, signed and not, are answered by Gyre, nsd
# and knot, and the answers compared record by record; named-checkzone must read the same records
# from the file as Gyre; delv must validate Gyre's answers of signed zones. SEED repeats a run,
# SECONDS bounds it.

require "fileutils"
require "open3"
require "socket"
require "tmpdir"
require "gyre"
require "gyre/dns"
require "gyre/dns/dig_text"

class ZoneComparison
  ORIGINS = %w[a.test b.test].freeze
  PARENT = "test"
  LABELS = %w[www shop a b c mail deep].freeze
  # Data of random records.
  DATA = {
    "A" => ->(random, _) { "192.0.2.#{random.rand(256)}" }, "AAAA" => ->(random, _) { "2001:db8::#{random.rand(65_536).to_s(16)}" },
    "TXT" => ->(random, _) { ['"a b" c', '"\\#" x', '"\\"\\\\"', "\"#{"x" * 200}\""].sample(random: random) },
    "MX" => ->(random, name) { "#{random.rand(99)} #{name}" }, "PTR" => ->(_, name) { name },
    "SRV" => ->(random, name) { "1 2 #{random.rand(65_536)} #{name}" }, "CAA" => ->(*) { '0 issue "ca.test"' },
    "HTTPS" => ->(random, name) { "1 #{name} alpn=\"h2,h3\" port=#{random.rand(65_536)} ipv4hint=192.0.2.1" },
    "SVCB" => ->(_, name) { "0 #{name}" }, "URI" => ->(*) { '1 2 "https://a.test/"' },
    "LOC" => ->(*) { "52 22 23.000 N 4 53 32.000 E -2.00m 1m 10000m 10m" }
  }.freeze
  TYPES = [*DATA.keys, "NS", "CNAME", "SOA", "DS"].freeze
  # What differs on purpose, by server and section: which of their records do not count.
  DIFFERENCES = {
    "knot: a question for a name that begins with *, answered from a wildcard further up" =>
      "knot leaves out the proof that the name itself does not exist (RFC 4035, section 3.1.3.3); nsd and Gyre send it",
    "additional" => "only glue of referrals is compared: addresses of MX and SRV targets are not added here",
    "authority of a positive answer" => "the zone's NS records are not added (RFC 1034 allows it); their signatures follow them",
    "an alias out of the zone" => "servers follow it into another of their zones (nsd, Gyre) or do not (knot): answers are compared up to there"
  }.freeze

  def initialize(seed, seconds)
    @seed, @random = seed, Random.new(seed)
    @end_s = Gyre::Clock.now + seconds
    @compared = @validated = @rounds = 0
    @different = []
  end

  def run
    Dir.mktmpdir { |folder| Dir.chdir(folder) { round until @rounds > 1 && Gyre::Clock.now > @end_s } }
    puts "#{@rounds} pairs of zones, #{@compared} answers compared, #{@validated} validated by delv, seed #{@seed}", @different.first(20)
    File.write(ENV["GYRE_TEST_COUNTS"], "#{@compared + @validated} #{@different.size} 0") if ENV["GYRE_TEST_COUNTS"]
    @different.empty?
  end

  private

  def round
    signed = (@rounds += 1).even?
    ORIGINS.each { |origin| File.write("#{origin}.zone", text(origin)) }
    files = ORIGINS.to_h { |origin| [origin, signed ? sign(origin) : "#{origin}.zone"] }
    zones = files.map { |origin, file| Gyre::DNS::Zone.load(origin, file) }
    responder = Gyre::DNS::Responder.new(0)
    responder.use(zones, nil)
    files.each { |origin, file| check(origin, file) }
    ORIGINS.each { |origin| check(origin, without_ttl(origin)) }
    with_servers(files) { |servers| questions.each { |name, type| compare(servers, responder, name, type, signed) } }
    validate(files, responder) if signed
  end

  def text(origin)
    lines = ["$ORIGIN #{origin}.", "$TTL 300", "@ SOA ns host 1 2h 1h 1w 60", "@ NS ns", "ns A 192.0.2.53"]
    names = Array.new(8) { name }.uniq
    names.each do |owner|
      next lines << "#{owner} CNAME #{target(names)}" if @random.rand(4).zero?
      next lines.push("#{owner} NS ns.#{owner}", "ns.#{owner} A 192.0.2.99") if @random.rand(8).zero? && !owner.start_with?("*")

      (1 + @random.rand(3)).times do
        type = DATA.keys.sample(random: @random)
        lines << "#{owner} #{type} #{DATA[type].call(@random, target(names))}"
      end
    end
    "#{lines.join("\n")}\n"
  end

  def name = [*("*" if @random.rand(3).zero?), *LABELS.sample(1 + @random.rand(2), random: @random)].join(".")

  def target(names)
    other = "x.#{LABELS.sample(random: @random)}.#{ORIGINS.sample(random: @random)}."
    [names.sample(random: @random).sub("*", "x"), other, "out.invalid."].sample(random: @random)
  end

  def sign(origin)
    key, status = Open3.capture2("ldns-keygen", "-a", "ECDSAP256SHA256", "-k", origin)
    command("ldns-signzone", "-f", "#{origin}.signed", "#{origin}.zone", key.strip) if status.success?
    "#{origin}.signed"
  end

  def command(*words)
    output, status = Open3.capture2e(*words)
    status.success? ? output : raise("#{words.join(" ")}: #{output}")
  end

  # nsd and knot take 3600 then, BIND and Gyre the TTL before.
  def without_ttl(origin)
    File.write("plain.zone", File.read("#{origin}.zone").sub("$TTL 300\n", "").gsub(/^(\S+) (?=TXT)/, '\1 90 '))
    "plain.zone"
  end

  # named-checkzone reads the same records as Gyre.
  def check(origin, file)
    output, status = Open3.capture2e("named-checkzone", "-i", "none", "-k", "ignore", "-D", "-o", "-", origin, file)
    return @different << "named-checkzone refuses #{file}: #{output.lines.first(3).join}" unless status.success?

    lines = output.lines.grep(/\sIN\s/)
    both = [Gyre::DNS::Zone.load(origin, file), Gyre::DNS::Zone.parse(origin, lines.join)].map do |zone|
      Gyre::DNS::Responder.new(0).tap { |responder| responder.use([zone], nil) }
    end
    lines.map { |line| line.split.values_at(0, 3) }.uniq.each do |name, type|
      ours, theirs = both.map { |each| records(ask(each, name, type, false).answers) }
      @compared += 1
      @different << "#{name} #{type}: #{ours - theirs}, but #{theirs - ours} by named-checkzone" unless ours == theirs
    end
  end

  def with_servers(files)
    ports = Array.new(2) { TCPServer.open("127.0.0.1", 0) { |server| server.local_address.ip_port } }
    File.write("nsd.conf", <<~TEXT + files.map { |origin, file| "zone:\n  name: #{origin}\n  zonefile: #{file}\n" }.join)
      server:
        ip-address: 127.0.0.1@#{ports[0]}
        username: ""
        chroot: ""
        zonesdir: "#{Dir.pwd}"
        database: ""
        pidfile: "#{Dir.pwd}/nsd.pid"
        xfrdfile: "#{Dir.pwd}/xfrd.state"
        zonelistfile: "#{Dir.pwd}/zone.list"
        cookie-secret-file: ""
        minimal-responses: yes
        server-count: 1
        verbosity: 0
      remote-control:
        control-enable: no
    TEXT
    zones = files.map { |origin, file| "  - domain: #{origin}\n    file: #{Dir.pwd}/#{file}\n    zonefile-sync: -1\n    journal-content: none\n" }
    File.write("knot.conf", <<~TEXT + zones.join)
      server:
        rundir: "#{Dir.pwd}"
        listen: 127.0.0.1@#{ports[1]}
      database:
        storage: "#{Dir.pwd}"
      zone:
    TEXT
    path = { "PATH" => "#{ENV["PATH"]}:/usr/sbin" }
    pids = [%w[nsd -d -c nsd.conf], %w[knotd -c knot.conf]].map { |words| spawn(path, *words, %i[out err] => "#{words[0]}.log") }
    servers = %w[nsd knot].zip(ports).to_h
    servers.each { |server, port| await(server, port, files.keys) }
    yield servers
  ensure
    pids&.each { |pid| Process.kill(:TERM, pid) rescue Errno::ESRCH }
    pids&.each { |pid| Process.wait(pid) }
  end

  def await(server, port, origins)
    deadline_s = Gyre::Clock.now + 20
    sleep 0.02 until origins.all? { |origin| over_tcp(port, query(origin, "SOA", false))&.answers&.any? } || Gyre::Clock.now > deadline_s
    raise "#{server} does not answer: #{File.read("#{server == "knot" ? "knotd" : server}.log")}" if Gyre::Clock.now > deadline_s
  end

  def query(name, type, signed) = Gyre::DNS::Message.query(name, type, flags: 0, edns: Gyre::DNS::EDNS.new(4096, 0, signed ? 0x8000 : 0, [])).encode

  def over_tcp(port, bytes)
    TCPSocket.open("127.0.0.1", port) do |socket|
      socket.write([bytes.bytesize].pack("n"), bytes)
      socket.read(2)&.then { |length| Gyre::DNS::Message.parse(socket.read(length.unpack1("n"))) }
    end
  rescue SystemCallError
    nil # it does not listen yet
  end

  def ask(responder, name, type, signed) = Gyre::DNS::Message.parse(responder.respond(query(name, type, signed), ""))

  def questions
    names = Array.new(60) { "#{name.sub("*", %w[x * y.x].sample(random: @random))}.#{ORIGINS.sample(random: @random)}" }
    [*names, *ORIGINS].map { |each| [each, TYPES.sample(random: @random)] }
  end

  def compare(servers, responder, name, type, signed)
    ours = ask(responder, name, type, signed)
    servers.each do |server, port|
      theirs = over_tcp(port, query(name, type, signed)) or next @different << "#{server} #{name} #{type}: no answer"
      @compared += 1
      mine, other = [ours, theirs].map { |message| comparable(message) }
      next if mine == other || (server == "knot" && (beyond?(ours, name) || (signed && name.start_with?("*."))))

      @different << "#{server} #{name} #{type}#{" signed" if signed}: Gyre #{mine.inspect}, #{server} #{other.inspect}"
    end
  end

  # True if an alias leads out of the zone.
  def beyond?(message, name)
    origin = ORIGINS.find { |each| name.end_with?(each) }
    targets(message).any? { |target| !target.end_with?(origin) }
  end

  def comparable(message)
    positive = message.rcode.zero? && message.answers.any? && message.authority.none? { |record| record.type == 6 }
    authority = message.authority.reject do |record|
      positive && message.authoritative? && (record.type == 2 || (record.type == 46 && record.data.unpack1("n") == 2))
    end
    [message.rcode, message.authoritative?, records(message.answers), records(authority)]
  end

  def records(all)
    all.map { |record| "#{record.name.downcase} #{record.ttl} #{Gyre::DNS.type_name(record.type)} #{record.data.unpack1("H*")}" }.sort
  end

  # delv resolves at Gyre's server, which has the zones and their parent, whose key is the anchor:
  # aliases lead from one zone into the other.
  def validate(files, responder)
    cuts = ORIGINS.map { |origin| "#{origin}. NS ns.#{origin}.\nns.#{origin}. A 192.0.2.53\n#{File.read(newest(origin, "ds"))}" }
    File.write("#{PARENT}.zone", "$ORIGIN #{PARENT}.\n$TTL 300\n@ SOA ns host 1 2h 1h 1w 60\n@ NS ns\nns A 192.0.2.53\n#{cuts.join("\n")}\n")
    files = { PARENT => sign(PARENT), **files }
    words = File.readlines(newest(PARENT, "key")).grep(/DNSKEY/).first.split(";").first.split
    flags, protocol, algorithm, *key = words.drop(words.index("DNSKEY") + 1)
    File.write("anchors", "trust-anchors { #{PARENT}. static-key #{flags} #{protocol} #{algorithm} \"#{key.join}\"; };\n")
    rules = -> { Gyre::DNS::Rules.new { files.each { |origin, file| zone(origin, file) } } }
    server = Gyre::DNS::Server.new("127.0.0.1:0", load: rules)
    thread = Thread.new { server.run }
    asked = questions.select { |name, type| whole?(ask(responder, name, type, true)) }
    crossing, others = asked.partition { |name, type| beyond?(ask(responder, name, type, true), name) }
    [*crossing.first(8), *others.first(12)].each { |name, type| delv(server.port, name, type) }
  ensure
    server&.stop
    thread&.join
  end

  def newest(origin, kind) = Dir["K#{origin}.+*.#{kind}"].max_by { |path| File.mtime(path) }

  # delv takes no referrals; signed answers end in these zones.
  def whole?(message)
    message.authoritative? && message.authority.none? { |record| record.type == 2 } && targets(message).all? { |name| name.end_with?(*ORIGINS) }
  end

  def targets(message) = message.answers.select { |record| record.type == 5 }.map { |record| Gyre::DNS::Wire.text(record.data) }

  def delv(port, name, type)
    output, = Open3.capture2e("delv", "@127.0.0.1", "-p", port.to_s, "-a", "anchors", "+root=#{PARENT}", "+nodlv", name, type)
    @validated += 1
    return if output.match?(/fully validated/) && !output.include?("unsigned")

    @different << "delv #{name} #{type}: #{output.lines.grep_v(/^;; (?:validating|fetch)/).first(3).join.strip}"
  end
end

exit ZoneComparison.new(Integer(ENV.fetch("SEED", rand(1 << 32).to_s)), Float(ENV.fetch("SECONDS", "5"))).run
