# frozen_string_literal: true

# Compares how rsyslogd and Gyre's log server read the same lines, over each transport and framing.
# Run by `rake compare:syslog`; SAMPLE=n takes each n-th line. Ends with 1 if a line differs without
# a reason (syslog_lines.rb), or has a reason and differs nowhere.

require "fileutils"
require "json"
require "socket"
require "tmpdir"
require "gyre"
require "gyre/log/server"
require_relative "../support/certificates"
require_relative "syslog_lines"

class SyslogComparison
  CONFIGURATION = <<~TEXT
    global(workDirectory="%<folder>s" parser.permitSlashInProgramName="on" maxMessageSize="64k")
    module(load="imudp")
    module(load="imtcp")
    module(load="imptcp")
    module(load="imuxsock" SysSock.Use="off")
    input(type="imudp" port="%<udp>d" address="127.0.0.1")
    input(type="imtcp" port="%<tcp>d" address="127.0.0.1")
    input(type="imptcp" port="%<zero>d" address="127.0.0.1" addtlFrameDelimiter="0")
    input(type="imuxsock" Socket="%<folder>s/unixgram" ParseHostname="on" UseSpecialParser="off"
          UseSysTimeStamp="off" IgnoreTimestamp="off" RateLimit.Interval="0")
    template(name="json" type="list" option.jsonf="on") {
      property(outname="service" name="programname" format="jsonf")
      property(outname="host" name="hostname" format="jsonf")
      property(outname="severity" name="syslogseverity" format="jsonf")
      property(outname="facility" name="syslogfacility-text" format="jsonf")
      property(outname="time" name="timereported" dateFormat="rfc3339" format="jsonf")
      property(outname="pid" name="procid" format="jsonf")
      property(outname="id" name="msgid" format="jsonf")
      property(outname="data" name="structured-data" format="jsonf")
      property(outname="message" name="msg" format="jsonf")
    }
    action(type="omfile" file="%<folder>s/rsyslog.json" template="json")
  TEXT
  # Needs Debian's rsyslog-gnutls.
  TLS_CONFIGURATION = <<~TEXT
    global(defaultNetstreamDriverCAFile="%<folder>s/authority.pem" defaultNetstreamDriverCertFile="%<folder>s/server.pem"
           defaultNetstreamDriverKeyFile="%<folder>s/server.key")
    input(type="imtcp" port="%<tls>d" address="127.0.0.1" streamDriver.name="gtls" streamDriver.mode="1" streamDriver.authMode="anon")
  TEXT
  HAS_TLS = Dir["/usr/lib/*/rsyslog/lmnsd_gtls.so"].any?
  TLS = ->(text) { "#{text}\n" }
  SEVERITIES = %w[fatal fatal fatal error warn info info debug].freeze
  WAYS = { "udp" => :udp, "tcp, lines" => ->(text) { "#{text}\n" }, "tcp, octets counted" => ->(text) { "#{text.bytesize} #{text}" },
           "tcp, zero bytes" => ->(text) { "#{text}\0" }, "unixgram" => :unixgram, **({ "TLS, lines" => TLS } if HAS_TLS).to_h }.freeze
  WITHIN_S = 30

  def initialize(lines)
    @lines = lines
    @faults = []
    @alike = lines.select(&:reason) # until one differs
  end

  def run
    puts "TLS: SKIPPED, rsyslog-gnutls is missing" unless HAS_TLS
    WAYS.each { |name, way| Dir.mktmpdir("gyre-syslog") { |folder| compare(name, way, folder) } }
    @alike.each { |line| @faults << "#{line.text.inspect} has a reason (#{line.reason}) and is read as rsyslog reads it" }
    puts @faults
    puts "#{@lines.size} lines, #{WAYS.size} ways: #{@faults.size} differ without a reason"
    @faults.empty?
  end

  private

  def compare(name, way, folder)
    # Gyre takes a number for a count only before a valid priority; rsyslog takes each.
    counted = name == "tcp, octets counted"
    lines = @lines.reject do |line|
      next unless way.is_a?(Proc)

      counted ? line.reason == :priorities || !line.text.start_with?("<") : line.text.match?(/\A\d/n)
    end
    theirs = by_rsyslog(way, folder, lines)
    ours = by_gyre(way, folder, lines)
    lines.each_with_index { |line, at| judge(name, line, ours[at], theirs[at]) }
  end

  def judge(name, line, ours, theirs)
    return @faults << "#{name}: #{line.text.inspect} was lost (#{{ gyre: ours, rsyslog: theirs }.inspect})" unless ours && theirs

    mine = told_by_gyre(ours)
    his = told_by_rsyslog(theirs, line, mine)
    differing = mine.keys.reject { |key| mine[key] == his[key] }
    @alike.delete(line) if differing.any?
    permitted = line.reason == :priorities ? mine.keys : mine.keys - %i[severity facility]
    differing -= permitted if line.reason
    return if differing.empty?

    @faults << "#{name}: #{line.text.inspect} differs in #{differing.join(", ")}\n  gyre    #{mine.values_at(*differing)}\n" \
               "  rsyslog #{his.values_at(*differing)}"
  end

  def told_by_gyre(fields)
    { service: fields["service"], severity: fields["severity"], facility: fields["facility"], host: host(fields["host"]), pid: fields["pid"]&.to_s,
      time: fields["logged_at"] && Time.iso8601(fields["logged_at"]).to_r.floor(3), message: fields["message"] }
  end

  # RFC 3164 has no year and no zone, so its times are not compared. rsyslog keeps the space before
  # a message, and shows an id and structured data apart from it.
  def told_by_rsyslog(fields, line, mine)
    id, data = fields.values_at("id", "data").map { |value| value unless ["-", ""].include?(value) }
    before = [("id=#{id}" if id), data].compact.join(" ")
    message = fields["message"].sub(/\A /, "").sub("\u{feff}", "")
    time = Time.iso8601(fields["time"].sub(/\.\d*[^\dZ+-]+\d*/, "")).to_r.floor(3) if mine[:time] && line.text !~ /\.\d{7,}/n
    { service: fields["service"], severity: SEVERITIES.fetch(fields["severity"].to_i), facility: fields["facility"],
      host: host(fields["host"]), pid: (fields["pid"] unless fields["pid"] == "-"), time: time || mine[:time],
      message: [before, message].reject(&:empty?).join(" ") }
  end

  # rsyslog has a name for this machine's address.
  def host(name) = [Socket.gethostname, "127.0.0.1"].include?(name) ? "localhost" : name

  def by_rsyslog(way, folder, lines)
    ports = { udp: free_port(UDPSocket), tcp: free_port(TCPServer), zero: free_port(TCPServer), tls: free_port(TCPServer) }
    File.write("#{folder}/rsyslog.conf", format("#{CONFIGURATION}#{TLS_CONFIGURATION if way == TLS}", folder: folder, **ports))
    GyreTest::Certificates.new(folder).issue("server")
    process = spawn(ENV.fetch("RSYSLOGD", "rsyslogd"), "-n", "-f", "#{folder}/rsyslog.conf", "-i", "#{folder}/pid", %i[out err] => "#{folder}/errors")
    port = way.is_a?(Proc) ? ports[way == TLS ? :tls : way.call("").end_with?("\0") ? :zero : :tcp] : ports[:udp]
    deliver(way, port, "#{folder}/unixgram", "#{folder}/rsyslog.json", lines)
  ensure
    Process.kill(:TERM, process)
    Process.wait(process)
  end

  def by_gyre(way, folder, lines)
    bind = case way
           when :udp then "udp://127.0.0.1:0"
           when :unixgram then "unixgram://#{folder}/ours"
           else "tcp://127.0.0.1:0"
           end
    log = { logfile: "#{folder}/gyre.json", format: "json" }
    server = Gyre::Log::Server.new(bind: "127.0.0.1:0", default_log: log, signals: false, interval: 0.01, report: File.open(File::NULL, "w"),
                                   inputs: [{ type: "syslog", bind: bind, tls: way == TLS }],
                                   **(way == TLS ? { tls: { cert: "#{folder}/server.pem", key: "#{folder}/server.key" } } : {})).listen
    thread = Thread.new { server.run }
    deliver(way, server.endpoints.last.port, "#{folder}/ours", "#{folder}/gyre.json", lines)
  ensure
    server.stop
    thread.value
  end

  # Sends a datagram once the one before it has been written, since datagrams may be dropped.
  def deliver(way, port, path, file, lines)
    if way.is_a?(Proc)
      socket = patiently { TCPSocket.new("127.0.0.1", port) }
      socket = OpenSSL::SSL::SSLSocket.new(socket).tap { |made| made.sync_close = true }.connect if way == TLS
      socket.write(lines.map { |line| way.call(line.text) }.join)
      socket.close
    else
      socket = way == :udp ? UDPSocket.new.tap { |made| made.connect("127.0.0.1", port) } : Socket.new(:UNIX, :DGRAM)
      patiently { socket.connect(Addrinfo.unix(path)) } if way == :unixgram
      patiently { way == :unixgram || File.exist?(file) || (socket.send("<13>ready: probe", 0) && raise(Errno::EAGAIN)) }
      lines.each_slice(20) do |slice|
        before = written(file).size
        slice.each { |line| socket.send(line.text, 0) }
        patiently { written(file).size >= before + slice.size || raise(Errno::EAGAIN) }
      end
    end
    patiently { written(file).size >= lines.size || raise(Errno::EAGAIN) }
    written(file).map { |line| JSON.parse(line) }
  ensure
    socket&.close
  end

  def written(file)
    return [] unless File.exist?(file)

    File.read(file, encoding: "UTF-8").scrub.lines.grep(/\n\z/).reject { |line| line.include?('"ready"') && line.include?("probe") }
  end

  def patiently
    over = Process.clock_gettime(Process::CLOCK_MONOTONIC) + WITHIN_S
    begin
      yield
    rescue SystemCallError
      raise if Process.clock_gettime(Process::CLOCK_MONOTONIC) > over

      sleep 0.02
      retry
    end
  end

  def free_port(kind)
    socket = kind.new(*(["127.0.0.1", 0] if kind == TCPServer))
    socket.bind("127.0.0.1", 0) if kind == UDPSocket
    socket.addr[1]
  ensure
    socket.close
  end
end

exit SyslogComparison.new(SyslogLines::ALL.each_slice(ENV.fetch("SAMPLE", "1").to_i).map(&:first)).run
