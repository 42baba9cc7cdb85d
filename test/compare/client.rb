# frozen_string_literal: true

# Sends the same random requests with Gyre's HTTP client, the program curl and Net::HTTP to servers
# of others, over HTTP/1, TLS and HTTP/2, and compares status, bytes, cookies and the way through
# redirects. Each server runs or fronts one app (APP; RACK_APP on Puma), which counts what it gets:
# no request that is not idempotent may come twice. Called by `rake compare:client`. Ends with
# status 1 at the first difference that DIFFERENCES does not have.
#
#   ruby -Ilib test/compare/client.rb REQUESTS SEED

require "digest"
require "gyre"
require "gyre/http/client"
require "json"
require "net/http"
require "openssl"
require "open3"
require "socket"
require "tmpdir"
require_relative "../support/ports"

module ClientDifferential
  SIZES = [0, 1, 100, 16_383, 16_384, 65_535, 65_536, 200_000].freeze
  STATUSES = [200, 200, 200, 201, 204, 304, 404, 500].freeze
  PATHS = ["/a", "/a%20b", "/x;y=1", "/a|b", "/%C3%A4"].freeze
  REDIRECTS = [301, 302, 303, 307, 308].freeze

  # What is different on purpose: [client, condition of the request, reason].
  DIFFERENCES = [
    [:curl, ->(request) { request.hops.positive? && !%w[GET HEAD POST PUT].include?(request.method) },
     "-X keeps its method after each redirect; here 303 makes GET of all but HEAD (RFC 9110, section 15.4.4)"],
    [:curl, ->(request) { request.hops.positive? && request.method == "PUT" && request.codes.any? { |code| [301, 302].include?(code) } },
     "-T repeats or drops the body after 301 and 302, by its version; here method and body stay (RFC 9110, section 15.4.2)"],
    [:curl, ->(request) { request.hops.positive? && request.body.nil? && request.method == "PUT" }, "-T needs a body"],
    [:net_http, ->(request) { request.hops.positive? }, "Net::HTTP follows no redirect"],
    [:net_http, ->(request) { request.path.match?(/[|]/) }, "URI refuses the address"]
  ].freeze

  # The app, for node: answers as the query asks, and tells what it got.
  APP = <<~JAVASCRIPT
    const http = require("http"), http2 = require("http2"), zlib = require("zlib"), crypto = require("crypto"), fs = require("fs");
    const counts = {};
    function app(request, response) {
      const pieces = [];
      request.on("error", () => {});
      response.on("error", () => {});
      request.on("data", (piece) => pieces.push(piece));
      request.on("end", () => {
        const url = new URL(request.url, "http://a"), want = JSON.parse(url.searchParams.get("want") || "{}");
        if (url.pathname === "/counts") return response.end(JSON.stringify(counts));
        const agent = (request.headers["user-agent"] || "").split("/")[0];
        const key = [request.method, want.id, want.hop || 0, agent].join(" ");
        counts[key] = (counts[key] || 0) + 1;
        const digest = crypto.createHash("sha1").update(Buffer.concat(pieces)).digest("hex");
        const head = { "x-method": request.method, "x-body": digest, "x-cookie": request.headers.cookie || "",
                       "x-target": request.url.split("?")[0] };
        if (want.codes && (want.hop || 0) < want.codes.length) {
          const hop = want.hop || 0, next = { ...want, hop: hop + 1 }, target = "?want=" + encodeURIComponent(JSON.stringify(next));
          head.location = (want.relative ? "" : url.pathname) + target;
          head["set-cookie"] = ["h" + hop + "=" + want.id + "; Path=/", "gone=1; Max-Age=0"];
          response.writeHead(want.codes[hop], head);
          return response.end("moved");
        }
        let body = Buffer.from((want.id + ":").repeat(Math.ceil(want.size / (want.id + ":").length)).slice(0, want.size));
        const coders = { gzip: zlib.gzipSync, deflate: zlib.deflateSync };
        if (coders[want.coding]) { body = coders[want.coding](body); head["content-encoding"] = want.coding; }
        if ([204, 304].includes(want.status) || request.method === "HEAD") body = Buffer.alloc(0);
        if (!want.pieces && ![204, 304].includes(want.status) && request.method !== "HEAD") head["content-length"] = body.length;
        response.writeHead(want.status, head);
        if (!want.pieces) return response.end(body);
        for (let at = 0; at < body.length; at += 10000) response.write(body.subarray(at, at + 10000));
        response.end();
      });
    }
    const plain = http.createServer(app).listen(0, "127.0.0.1", () => {
      const pem = fs.readFileSync(process.argv[1]);
      const secure = http2.createSecureServer({ key: pem, cert: pem, allowHTTP1: true }, app);
      secure.listen(0, "127.0.0.1", () => console.log(plain.address().port + " " + secure.address().port));
    });
  JAVASCRIPT

  # The same for Puma.
  RACK_APP = <<~'RUBY'
    require "digest"
    require "json"
    require "uri"
    require "zlib"
    counts = Hash.new(0)
    coders = { "gzip" => Zlib.method(:gzip), "deflate" => Zlib::Deflate.method(:deflate) }
    run(lambda do |env|
      sent = env["rack.input"].read
      path, query = env["REQUEST_URI"].split("?", 2)
      want = JSON.parse(URI.decode_www_form(query.to_s).to_h["want"] || "{}")
      next [200, {}, [JSON.generate(counts)]] if path == "/counts"

      hop = want["hop"] || 0
      counts[[env["REQUEST_METHOD"], want["id"], hop, env["HTTP_USER_AGENT"].to_s.split("/")[0]].join(" ")] += 1
      head = { "x-method" => env["REQUEST_METHOD"], "x-body" => Digest::SHA1.hexdigest(sent), "x-cookie" => env["HTTP_COOKIE"].to_s,
               "x-target" => path }
      if want["codes"] && hop < want["codes"].size
        head["location"] = "#{path unless want["relative"]}?#{URI.encode_www_form(want: JSON.generate(want.merge("hop" => hop + 1)))}"
        head["set-cookie"] = ["h#{hop}=#{want["id"]}; Path=/", "gone=1; Max-Age=0"]
        next [want["codes"][hop], head, ["moved"]]
      end
      body = ("#{want["id"]}:" * (want["size"] / want["id"].size + 1)).byteslice(0, want["size"])
      coder = coders[want["coding"]]
      head["content-encoding"] = want["coding"] if coder
      body = coder.call(body) if coder
      none = [204, 304].include?(want["status"])
      head["content-length"] = body.bytesize.to_s unless want["pieces"] || none
      [want["status"], head, none ? [] : want["pieces"] ? body.scan(/.{1,10000}/mn).each : [body]]
    end)
  RUBY

  Request = Struct.new(:method, :path, :want, :kind, :body, :cancel) do
    def hops = codes.size
    def codes = want[:codes] || []
    def target = "#{path}?#{URI.encode_www_form(want: JSON.generate(want))}"
  end

  # Draws requests.
  class Draw
    def initialize(seed)
      @random = Random.new(seed)
      @count = 0
    end

    def request
      method = pick(%w[GET GET GET POST POST PUT HEAD DELETE PATCH OPTIONS])
      body = Random.new(@random.rand(1 << 30)).bytes(pick(SIZES)) if %w[POST PUT PATCH].include?(method)
      want = { id: "r#{@count += 1}", status: pick(STATUSES), size: pick(SIZES), pieces: chance(0.4),
               coding: pick(%w[none none gzip deflate]) }
      want.update(codes: Array.new(1 + @random.rand(3)) { pick(REDIRECTS) }, relative: chance(0.5)) if chance(0.3)
      Request.new(method, pick(PATHS), want, pick(%i[string file io pieces]), body, (@random.rand(3) if chance(0.1)))
    end

    private

    def pick(list) = list[@random.rand(list.size)]
    def chance(share) = @random.rand < share
  end

  # Each client returns status, digest of the body, and what the app got at last; nil: no statement.
  class Clients
    TELLS = %w[x-method x-body x-cookie x-target].freeze

    def initialize(url, folder, http2)
      @url = url
      @folder = folder
      @http2 = http2
      tls = Gyre::TLS.client(verify: false, alpn: http2 ? %w[h2 http/1.1] : [])
      @gyre = Gyre::HTTP::Client.new(url, tls: tls, proxy: nil, cookies: true, timeout_s: 60)
    end

    # Cookies start afresh with each request, as curl's do; connections are kept.
    def gyre(request)
      options = { headers: { "content-type" => "application/x-random" } }
      @gyre.instance_variable_set(:@cookies, Gyre::HTTP::Client::Cookies.new)
      return cancelled(request, options) if request.cancel

      with_body(request) do |body|
        response = @gyre.request(request.method, request.target, body: body, **options)
        outcome(response.status, response.body, response.headers)
      end
    rescue Gyre::HTTP::Client::RedirectError
      raise unless request.kind == :pieces # which come once

      nil
    end

    def curl(request)
      command = ["curl", "-s", "-k", "-L", "--compressed", "--path-as-is", "-g", "-D", "#{@folder}/head", "-b", "",
                 "-H", "content-type: application/x-random",
                 @http2 ? "--http2" : "--http1.1", *method_flags(request), "#{@url}#{request.target}"]
      File.binwrite("#{@folder}/sent", request.body.to_s)
      bytes, status = Open3.capture2(*command, binmode: true)
      raise "curl ended with #{status.exitstatus}" unless status.success?

      bytes = "" if request.method == "HEAD" # -I writes the head

      lines = File.binread("#{@folder}/head").split(/\r\n\r\n/).last.lines.map(&:chomp)
      head = lines.drop(1).to_h { |line| line.split(": ", 2).then { |name, value| [name.downcase, value.to_s] } }
      outcome(lines.first[/ (\d{3})/, 1].to_i, bytes, head)
    end

    def net_http(request)
      uri = URI("#{@url}#{request.target}")
      @net_http ||= Net::HTTP.new(uri.hostname, uri.port, nil).tap do |http|
        http.use_ssl = uri.scheme == "https"
        http.verify_mode = OpenSSL::SSL::VERIFY_NONE
        http.start
      end
      kind = [request.method, !request.body.nil?, request.method != "HEAD"]
      sent = Net::HTTPGenericRequest.new(*kind, uri.request_uri, "content-type" => "application/x-random")
      sent.body = request.body
      response = @net_http.request(sent)
      outcome(response.code.to_i, response.body.to_s, response.to_hash.transform_values { |values| values.join(", ") })
    end

    def close
      @gyre.close
      @net_http&.finish
    end

    private

    def method_flags(request)
      case request.method
      when "GET" then []
      when "HEAD" then ["-I"]
      when "POST" then ["--data-binary", "@#{@folder}/sent"]
      when "PUT" then ["-T", "#{@folder}/sent"]
      else ["-X", request.method, *(["--data-binary", "@#{@folder}/sent"] if request.body)]
      end
    end

    def with_body(request)
      case request.body && request.kind
      when nil then yield nil
      when :string then yield request.body
      when :io then yield StringIO.new(request.body)
      when :pieces then yield request.body.scan(/.{1,20000}/mn).each
      else
        File.binwrite("#{@folder}/file", request.body)
        File.open("#{@folder}/file", "rb") { |file| yield file }
      end
    end

    # Leaves after some pieces; the next requests show whether the client is whole.
    def cancelled(request, options)
      @gyre.request(request.method, request.target, body: request.body, **options) do |response|
        left = request.cancel
        response.each { (left -= 1).negative? && break }
      end
      nil
    end

    # curl 7 sends the newest cookie first; RFC 6265, section 5.4, wants the oldest.
    def outcome(status, body, headers)
      tells = headers.values_at(*TELLS)
      tells[2] = tells[2].to_s.split("; ").sort
      [status, body.bytesize, Digest::SHA1.hexdigest(body), *tells]
    end
  end

  # Servers: name => urls. What is not installed is left out, and said.
  class Servers
    def initialize(folder)
      @folder = folder
      @pids = []
    end

    def start
      File.write("#{@folder}/pem", identity)
      plain, secure = node
      { "node" => ["http://127.0.0.1:#{plain}", "https://127.0.0.1:#{secure}"], "nginx" => nginx(plain), "Apache" => apache(plain),
        "Puma" => puma }.compact
    end

    def stop = @pids.each { |pid| Process.kill(:KILL, pid) && Process.wait(pid) }

    private

    def identity
      key = OpenSSL::PKey::EC.generate("prime256v1")
      certificate = OpenSSL::X509::Certificate.new
      certificate.version, certificate.serial, certificate.public_key = 2, 1, key
      certificate.not_before, certificate.not_after = Time.now - 60, Time.now + 86_400
      certificate.subject = certificate.issuer = OpenSSL::X509::Name.parse("/CN=localhost")
      certificate.sign(key, "SHA256")
      certificate.to_pem + key.to_pem
    end

    def node
      reader, writer = IO.pipe
      @pids << spawn("node", "-e", APP, "#{@folder}/pem", out: writer)
      reader.gets.split.map(&:to_i)
    ensure
      [reader, writer].each(&:close)
    end

    def nginx(origin)
      program = program("nginx") or return
      ports = free_ports
      File.write("#{@folder}/nginx.conf", <<~CONFIGURATION)
        #{"user root;" if Process.uid.zero?}
        daemon off; pid #{@folder}/nginx.pid; worker_processes 1; error_log #{@folder}/nginx.log;
        events { }
        http {
          access_log off; client_max_body_size 0; keepalive_requests 20;
          #{%w[client_body proxy fastcgi uwsgi scgi].map { |name| "#{name}_temp_path #{@folder}/tmp-#{name};" }.join}
          upstream app { server 127.0.0.1:#{origin}; keepalive 4; }
          server {
            listen 127.0.0.1:#{ports[0]}; listen 127.0.0.1:#{ports[1]} ssl http2;
            ssl_certificate #{@folder}/pem; ssl_certificate_key #{@folder}/pem;
            location / { proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_next_upstream off; }
          }
        }
      CONFIGURATION
      run(ports, program, "-p", @folder, "-c", "#{@folder}/nginx.conf")
    end

    def apache(origin)
      program = program("apache2") or return
      ports = free_ports
      modules = %w[mpm_event authz_core proxy proxy_http http2 socache_shmcb ssl]
      File.write("#{@folder}/apache.conf", <<~CONFIGURATION)
        ServerRoot #{@folder}
        ServerName localhost
        PidFile #{@folder}/apache.pid
        DefaultRuntimeDir #{@folder}
        ErrorLog #{@folder}/apache.log
        Listen 127.0.0.1:#{ports[0]}
        Listen 127.0.0.1:#{ports[1]}
        #{modules.map { |name| "LoadModule #{name}_module /usr/lib/apache2/modules/mod_#{name}.so" }.join("\n")}
        Protocols h2 http/1.1
        AllowEncodedSlashes NoDecode
        ProxyPass / http://127.0.0.1:#{origin}/ nocanon
        <VirtualHost 127.0.0.1:#{ports[1]}>
          SSLEngine on
          SSLCertificateFile #{@folder}/pem
          ProxyPass / http://127.0.0.1:#{origin}/ nocanon
        </VirtualHost>
      CONFIGURATION
      run(ports, program, "-X", "-f", "#{@folder}/apache.conf")
    end

    def puma
      version = RbConfig::CONFIG["ruby_version"]
      gems = File.expand_path("../../vendor/bundle/async-#{RUBY_ENGINE}-#{version}", __dir__)
      unless File.exist?("#{gems}/Gemfile.lock")
        return warn("compare:client: GYRE_BUNDLE=async bin/bundle install was not called, so Puma's share is left out")
      end

      ports = free_ports
      File.write("#{@folder}/config.ru", RACK_APP)
      environment = ENV.keys.grep(/\ABUNDLE|\ARUBY(?:OPT|LIB)/).to_h { |name| [name, nil] }.merge("BUNDLE_GEMFILE" => "#{gems}/Gemfile")
      addresses = ["-b", "tcp://127.0.0.1:#{ports[0]}", "-b", "ssl://127.0.0.1:#{ports[1]}?cert=#{@folder}/pem&key=#{@folder}/pem"]
      puma = "#{gems}/gems/#{RUBY_ENGINE}/#{version}/bin/puma"
      run(ports, environment, RbConfig.ruby, "-rbundler/setup", puma, *addresses, "#{@folder}/config.ru")
    end

    def run(ports, *command)
      @pids << spawn(*command, out: File::NULL, err: File::NULL)
      ports.each { |port| GyreTest::Ports.await(port, within_s: 30) }
      ["http://127.0.0.1:#{ports[0]}", "https://127.0.0.1:#{ports[1]}"]
    end

    def free_ports = Array.new(2) { TCPServer.new("127.0.0.1", 0) }.map { |server| server.local_address.ip_port.tap { server.close } }

    def program(name)
      path = [*ENV["PATH"].split(":"), "/usr/sbin"].map { |folder| "#{folder}/#{name}" }.find { |file| File.executable?(file) }
      warn("compare:client: #{name} is not installed, so its share is left out") unless path
      path
    end
  end

  module_function

  def run(count, seed)
    Dir.mktmpdir("gyre") do |folder|
      File.chmod(0o755, folder)
      servers = Servers.new(folder)
      urls = servers.start
      ways = urls.flat_map { |name, (plain, tls)| [[name, plain, false], [name, tls, false], [name, tls, true]] }
      ways.each_with_index { |way, index| compare(*way, folder, Draw.new(seed + index), (count.to_f / ways.size).ceil) }
      counts = urls.values.map { |url, _| JSON.parse(Net::HTTP.get(URI("#{url}/counts"))) }
      twice = counts.reduce(:merge).select { |key, times| times > 1 && key.match?(/\A(?:POST|PATCH)/) }
      abort "came more than once from a client: #{twice}" unless twice.empty?
    ensure
      servers&.stop
    end
  end

  def compare(name, url, http2, folder, draw, count)
    clients = Clients.new(url, folder, http2)
    label = "#{name} #{url[/\w+/]}#{" HTTP/2" if http2}"
    count.times do
      request = draw.request
      request.want[:id] = "#{label.tr(" /", "")}-#{request.want[:id]}" # the app counts by id
      ours = request.want[:id].hash.even? ? Gyre.run { clients.gyre(request) } : clients.gyre(request)
      next unless ours

      %i[curl net_http].each do |other|
        next if DIFFERENCES.any? { |client, condition, _| client == other && condition.call(request) }

        theirs = clients.public_send(other, request)
        next if ours == theirs

        sent = "#{request.method} #{request.target} with #{request.body&.bytesize.inspect} bytes (#{request.kind})"
        abort "#{label}: #{sent}:\n  gyre #{ours}\n  #{other} #{theirs}"
      end
    end
    puts "#{label}: #{count} requests, the same by Gyre, curl and Net::HTTP"
  ensure
    clients&.close
  end
end

if $PROGRAM_NAME == __FILE__
  count, seed = ARGV.map { |word| Integer(word) }
  ClientDifferential.run(count, seed)
end
