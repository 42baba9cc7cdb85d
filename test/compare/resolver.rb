# frozen_string_literal: true

# `rake compare:resolver` runs this in a network and mount namespace of its own: glibc's getaddrinfo
# and Gyre's resolver look up the same names with the same resolv.conf and hosts file, at name
# servers that misbehave by seed. Addresses and kind of error must be equal, and the time not much
# longer. SEED repeats a run, SECONDS bounds it.

require "socket"
require "gyre"
require "gyre/dns"

class ResolverComparison
  SERVERS = %w[127.0.0.1 127.0.0.2 127.0.0.3].freeze
  # Faults of a server, each with what it does to the replies: [query bytes, reply bytes, number of
  # queries for this name so far] => packets.
  FAULTS = {
    good: ->(_, reply, _) { [reply] },
    silent: ->(*) { [] },
    first_lost: ->(_, reply, count) { count > 2 ? [reply] : [] },
    servfail: ->(_, reply, _) { [with_code(reply, 2)] },
    refused: ->(_, reply, _) { [with_code(reply, 5)] },
    lower_case: ->(query, reply, _) { [reply.b.tap { |bytes| bytes[12, query.bytesize] = bytes[12, query.bytesize].downcase }] },
    no_edns: ->(query, reply, _) { query.byteslice(10, 2) == "\0\0" ? [reply] : [] },
    edns_formerr: ->(query, reply, _) { query.byteslice(10, 2) == "\0\0" ? [reply] : [with_code(reply, 1)] },
    twice: ->(_, reply, _) { [reply, reply] },
    other_id: ->(_, reply, _) { [reply.b.tap { |bytes| bytes.setbyte(0, bytes.getbyte(0) ^ 255) }, reply] },
    more_bytes: ->(_, reply, _) { ["#{reply}\0\0\0"] },
    late: ->(_, reply, _) { sleep(0.2) && [reply] }
  }.freeze
  # Names by first label: records of the reply, or a code.
  NAMES = {
    "one" => [["A", "192.0.2.1"], ["AAAA", "2001:db8::1"]], "four" => [["A", "192.0.2.4"]], "six" => [["AAAA", "2001:db8::6"]],
    "many" => (1..60).map { |index| ["A", "192.0.2.#{index}"] }, "none" => [], "missing" => 3, "alias" => :alias, "loop" => :loop
  }.freeze
  OPTIONS = ["ndots:2", "rotate", "single-request", "single-request-reopen", "use-vc", "no-tld-query", "edns0"].freeze
  # What differs on purpose: reason => whether it applies to glibc's result, Gyre's, resolv.conf and
  # the servers' faults.
  DIFFERENCES = {
    "a server that answers FORMERR is a failing server, and the next one is asked" => ->(theirs, ours, *) { [theirs, ours] == %i[failed temporary] },
    "an alias that leads to itself has no address" => ->(theirs, ours, *) { [theirs, ours] == %i[failed absent] },
    "with edns0 glibc does not ask a server again without EDNS" => ->(theirs, _, text, _) { theirs.is_a?(Symbol) && text.include?("edns0") },
    "Gyre asks a silent server again after half the time, glibc at the next attempt" =>
      ->(theirs, ours, _, faults) { theirs.is_a?(Symbol) && ours != :temporary && faults.include?(:first_lost) },
    "over TCP glibc takes a server that hangs up for an absent name" =>
      ->(theirs, ours, text, _) { [theirs, ours] == %i[absent temporary] && text.include?("use-vc") },
    "over TCP glibc asks no other server after SERVFAIL or REFUSED" =>
      lambda do |theirs, ours, text, faults|
        text.include?("use-vc") && theirs.is_a?(Symbol) && ours.is_a?(Array) && faults.any?(/\A(?:servfail|refused)\z/)
      end,
    "with single-request glibc takes a lost second answer for an absent one" =>
      lambda do |theirs, ours, text, _|
        text.include?("single-request") && ours.is_a?(Array) && (theirs == :absent || (theirs.is_a?(Array) && (theirs - ours).empty?))
      end
  }.freeze
  # A lookup may take more of a server's time than glibc's: half without EDNS, half over TCP.
  MORE_S = 1.5
  PATIENT_S = 5 # timeout of resolv.conf

  def self.with_code(reply, code) = reply.b.tap { |bytes| bytes.setbyte(3, bytes.getbyte(3) & 0xf0 | code) && bytes[6, 2] = "\0\0" }

  def initialize(seed, seconds)
    @seed, @random = seed, Random.new(seed)
    @end_s = Gyre::Clock.now + seconds
    @faults, @counts = {}, Hash.new(0)
    @compared = @aside = 0
    @different = []
  end

  # Returns whether all results were equal.
  def run
    SERVERS.each { |address| serve(address) }
    compare until Gyre::Clock.now > @end_s
    puts "#{@compared} lookups compared, #{@aside} left to getaddrinfo, seed #{@seed}", @different.first(20)
    File.write(ENV["GYRE_TEST_COUNTS"], "#{@compared} #{@different.size} 0") if ENV["GYRE_TEST_COUNTS"]
    @different.empty?
  end

  private

  def serve(address)
    udp, tcp = UDPSocket.new.tap { |socket| socket.bind(address, 53) }, TCPServer.new(address, 53)
    Thread.new do
      loop do
        query, from = udp.recvfrom(4096)
        Thread.new { reply(address, query, :udp).each { |packet| udp.send(packet, 0, from[3], from[1]) } }
      end
    end
    Thread.new { loop { Thread.new(tcp.accept) { |socket| converse(address, socket) } } }
  end

  # Hangs up where it has no reply: glibc waits without limit for a reply over TCP.
  def converse(address, socket)
    return if @faults[address].last # has no TCP

    while (length = socket.read(2)) && (query = socket.read(length.unpack1("n")))
      packets = reply(address, query, :tcp)
      return if packets.empty?

      packets.each { |packet| socket.write([packet.bytesize].pack("n"), packet) }
    end
  rescue SystemCallError
    nil # the client is gone
  ensure
    socket.close
  end

  def reply(address, query, transport)
    question = Gyre::DNS::Message.parse(query).questions.first
    name = question.name.downcase
    fault = FAULTS.fetch(@faults[address].first)
    bytes = message(query, question, name)
    if transport == :udp && bytes.bytesize > 512 && !@faults[address].last
      bytes = Gyre::DNS::Message.new(query.unpack1("n"), 0x8380, questions: [question]).encode # truncated
    end
    fault.call(query, bytes, transport == :udp ? @counts[[address, name]] += 1 : 9) # TCP loses nothing
  rescue Gyre::DNS::FormatError
    []
  end

  def message(query, question, name)
    id, found = query.unpack1("n"), NAMES[name[/\A[a-z]+/]]
    found = 3 if found.nil? || !name.match?(/\A[a-z]+\d*\.example\z/)
    code, found = found.is_a?(Integer) ? [found, []] : [0, found]
    target = "one.example" if found == :alias
    target = name if found == :loop
    records = target ? [record(name, "CNAME", target)] : []
    (target && found == :alias ? NAMES["one"] : found.is_a?(Array) ? found : []).each do |type, data|
      records << record(target || name, type, data) if Gyre::DNS.type_number(type) == question.type
    end
    Gyre::DNS::Message.new(id, 0x8180, rcode: code, questions: [question], sections: [records, [], []]).encode
  end

  def record(name, type, data)
    data = Resolv::DNS::Name.create("#{data}.") if type == "CNAME"
    Gyre::DNS::Record.for(name, 60, Resolv::DNS::Resource::IN.const_get(type).new(data))
  end

  # One resolv.conf, and some names for both. Names that differ are asked once more, with a
  # resolv.conf that lets servers be late by seconds: their threads may have stood still.
  def compare
    configure
    names = NAMES.keys.sample(5, random: @random).map do |name|
      [name, *(@random.rand(99) if @random.rand(2).zero?), [".example", ".example.", ""].sample(random: @random)].join
    end
    names.concat(%w[host.file 192.0.2.9])
    rows = ask(names)
    @compared += rows.size
    differing = rows.reject { |row| alike?(*row) }.map(&:first)
    return if differing.empty?

    write(@text.sub("timeout:1", "timeout:#{PATIENT_S}"))
    ask(differing).each { |row| note(*row) unless alike?(*row) }
  end

  # Returns each name with glibc's result and Gyre's, and their times. Leaves out names that Gyre
  # leaves to getaddrinfo.
  def ask(names)
    @counts.clear
    expected = in_a_child { names.map { |name| Thread.new { timed { system_result(name) } } }.map(&:value) }
    @counts.clear
    Gyre::DNS.host_names = :exact
    found = Gyre.run { |task| names.map { |name| task.async { timed { gyre_result(name) } } }.map(&:wait) }
    names.zip(expected, found).reject { |_, _, (ours, _)| ours == :aside && @aside += 1 }
  end

  def configure
    SERVERS.each { |address| @faults[address] = [FAULTS.keys.sample(random: @random), @random.rand(3).zero?] }
    servers = SERVERS.sample(1 + @random.rand(2), random: @random)
    options = ["timeout:1", "attempts:#{1 + @random.rand(2)}", *(OPTIONS.sample(random: @random) if @random.rand(2).zero?)]
    search = [[], ["example"], ["corp.test", "example"], ["#{"x" * 70}.test", "example"]].sample(random: @random)
    write("#{servers.map { |server| "nameserver #{server}\n" }.join}options #{options.join(" ")}\n#{"search #{search.join(" ")}\n" if search.any?}")
    File.write("/etc/hosts", "127.0.0.1 localhost\n192.0.2.77 host.file\n")
  end

  def write(text)
    @text = text
    File.write("/etc/resolv.conf", text)
  end

  def in_a_child
    reader, writer = IO.pipe
    child = fork do
      reader.close
      Gyre::DNS.host_names = :never
      writer.write(Marshal.dump(yield))
      writer.close
      exit!(0)
    end
    writer.close
    Marshal.load(reader.read)
  ensure
    reader.close
    Process.wait(child)
  end

  def timed
    begun_s = Gyre::Clock.now
    [yield, Gyre::Clock.now - begun_s]
  end

  def system_result(name)
    Addrinfo.getaddrinfo(name, nil, nil, :STREAM).map(&:ip_address).uniq.sort
  rescue SocketError => error
    kind(error.message)
  end

  def gyre_result(name)
    found = Gyre::HostNames.resolve(name)
    found.nil? ? :aside : found.empty? ? :absent : found.uniq.sort
  rescue SocketError => error
    kind(error.message)
  end

  def kind(text)
    case text
    when /Temporary/ then :temporary
    when /not known|No address/ then :absent
    else :failed
    end
  end

  def alike?(_, (theirs, their_s), (ours, our_s))
    faults = servers.map { |address| @faults[address].first }
    same = theirs == ours || DIFFERENCES.each_value.any? { |applies| applies.call(theirs, ours, @text, faults) }
    same && our_s < their_s * 1.5 + MORE_S
  end

  def servers = @text.scan(/nameserver (\S+)/).flatten

  def note(name, (theirs, their_s), (ours, our_s))
    faults = servers.map { |address| @faults[address].then { |fault, tcp| "#{fault}#{" without TCP" if tcp}" } }
    @different << "#{name}: glibc #{theirs} in #{their_s.round(2)} s, Gyre #{ours} in #{our_s.round(2)} s; #{faults.join(", ")}; #{@text.inspect}"
  end
end

exit ResolverComparison.new(Integer(ENV.fetch("SEED", rand(1 << 32).to_s)), Float(ENV.fetch("SECONDS", "5"))).run
