# frozen_string_literal: true

# Sends random requests by seed to the cache of `gyre serve`, to nginx's proxy_cache and to
# Thruster, the last two in front of Puma, all with one app, and compares status, body, and whether
# the app was asked. Called by `rake compare:cache`. Ends with status 1 at the first difference that
# DIFFERENCES does not have. Where a program meets one of those, the rest of it is not compared with
# that server, because what is stored differs from then on.
#
#   ruby -Ilib test/compare/cache.rb SEED SECONDS PUMA [THRUSTER]

require "json"
require "net/http"
require "socket"
require "tmpdir"
require "uri"
require_relative "../support/ports"

module CacheDifferential
  PAST = "Sun, 09 Sep 2001 01:46:40 GMT"
  SHORT_S = 3
  # Values of cache-control; some are drawn more often because they make more of a program.
  CONTROLS = [
    "public, max-age=60", "public, max-age=60", "public, max-age=#{SHORT_S}", "public, max-age=#{SHORT_S}", "public, s-maxage=60, max-age=0",
    "public, s-maxage=#{SHORT_S}", "s-maxage=60", "max-age=60", "public", "public, max-age=0", "public, max-age=60, no-cache",
    "public, max-age=60, no-store", "private, max-age=60", "private, max-age=60, s-maxage=60", "no-store",
    "public, max-age=#{SHORT_S}, must-revalidate", "Public, Max-Age=60", "public,max-age=60", "public, max-age=abc", nil
  ].freeze
  EXTRAS = [
    {}, {}, {}, { "etag" => '"tag"' }, { "etag" => '"tag"' }, { "etag" => 'W/"tag"' }, { "last-modified" => PAST },
    { "vary" => "accept-language" }, { "vary" => "Accept-Language, X-Kind" }, { "vary" => "*" }, { "set-cookie" => "a=1" },
    { "age" => "59" }, { "expires" => PAST }, { "date" => PAST }
  ].freeze
  STATUSES = [*[200] * 12, 203, 301, 302, 404, 410, 500, 503].freeze
  # Headers of requests by GET.
  HEADERS = [
    *[{}] * 8, { "accept-language" => "de" }, { "accept-language" => "en" }, { "accept-language" => "de", "x-kind" => "a" },
    { "if-none-match" => '"tag"' }, { "if-none-match" => 'W/"tag"' }, { "if-none-match" => '"other"' }, { "if-modified-since" => PAST },
    { "range" => "bytes=0-3" }, { "range" => "bytes=0-3", "if-range" => '"tag"' }, { "range" => "bytes=500-" }, { "cache-control" => "no-cache" },
    { "cache-control" => "max-age=0" }, { "cache-control" => "no-store" }, { "cache-control" => "only-if-cached" },
    { "authorization" => "Basic YTpi" }, { "cookie" => "a=1" }, { "x-forwarded-host" => "other.test" }
  ].freeze
  REQUESTS = [*HEADERS.map { |headers| ["GET", headers] }, ["HEAD", {}], ["POST", {}], ["DELETE", {}], ["OPTIONS", {}]].freeze

  # The app: responds as the query wants, numbers its responses, and answers conditions.
  APP = <<~'RUBY'
    require "json"
    require "uri"
    counts = Hash.new(0)
    run(lambda do |env|
      path = env["PATH_INFO"]
      next [200, { "content-type" => "text/plain" }, [counts[env["QUERY_STRING"]].to_s]] if path == "/counts"

      count = counts[path.delete_prefix("/")] += 1
      want = JSON.parse(URI.decode_www_form_component(env["QUERY_STRING"]))
      headers = want["headers"].merge("content-type" => "text/plain")
      next [204, {}, []] unless %w[GET HEAD].include?(env["REQUEST_METHOD"])

      tag = env["HTTP_IF_NONE_MATCH"]
      since = env["HTTP_IF_MODIFIED_SINCE"]
      same = tag ? tag.delete_prefix("W/") == headers["etag"]&.delete_prefix("W/") : since && since == headers["last-modified"]
      next [304, headers.except("content-type"), []] if same && want["status"] == 200

      body = "body #{count}".ljust(want["bytes"])
      [want["status"], headers, env["REQUEST_METHOD"] == "HEAD" ? [] : [body]]
    end)
  RUBY

  # A resource, and requests for it; after `pause` of them comes a pause that ends short lifetimes.
  Program = Struct.new(:id, :want, :requests, :pause) do
    def control = want["headers"].fetch("cache-control", "").downcase
    def lifetime? = control.match?(/max-?age=[1-9]/)
    def shared? = control.match?(/public|s-maxage/)
    def has?(name) = want["headers"].key?(name)
    def sent?(requests, *names) = requests.any? { |_, headers| headers.keys.intersect?(names) }
    def used?(requests, *methods) = requests.any? { |method, _| methods.include?(method) }
    def path = "/#{id}?#{URI.encode_www_form_component(JSON.generate(want))}"
  end

  CONDITIONS = %w[range if-none-match if-modified-since].freeze
  # What differs on purpose: [server, reason, whether it explains a difference at the last of these
  # requests for the program's resource].
  DIFFERENCES = [
    [:both, "cache-control of a request counts here (RFC 9111, section 5.2.1)", ->(program, requests) { program.sent?(requests, "cache-control") }],
    [:both, "requests with Authorization are left to the app here: a mistake would show one user another's page",
     ->(program, requests) { program.sent?(requests, "authorization") }],
    [:both, "a write makes the stored response old here (RFC 9111, section 4.4)",
     ->(program, requests) { program.used?(requests, "POST", "DELETE") }],
    [:both, "errors of the app are not kept here", ->(program, _) { program.want["status"] >= 500 }],
    [:both, "a forged X-Forwarded-Host makes a variant here, because apps make links of it",
     ->(program, requests) { program.sent?(requests, "x-forwarded-host") }],
    [:both, "Age and Date are counted in here (RFC 9111, section 4.2.3)", ->(program, _) { program.has?("age") || program.has?("date") }],
    [:nginx, "has no limit for a body", ->(program, _) { program.want["bytes"] > 1 << 20 }],
    [:nginx, "keeps responses that are not called public, since it is told to cache", ->(program, _) { program.lifetime? && !program.shared? }],
    [:nginx, "fetches by GET for HEAD", ->(program, requests) { program.used?(requests, "HEAD") }],
    [:nginx, "fetches the whole for a range or a condition; here the app answers", ->(program, requests) { program.sent?(requests, *CONDITIONS) }],
    [:nginx, "Expires comes before max-age if it stands first", ->(program, _) { program.has?("expires") }],
    [:thruster, "answers HEAD only by responses to HEAD, and keeps those", ->(program, requests) { program.used?(requests, "HEAD") }],
    [:thruster, "knows s-max-age but not s-maxage, and no capitals",
     ->(program, _) { program.want["headers"]["cache-control"].to_s.match?(/s-maxage|[A-Z]/) }],
    [:thruster, "keeps responses without their cookie, and takes it from the client", ->(program, _) { program.has?("set-cookie") }],
    [:thruster, "keeps no response from 400 on", ->(program, _) { program.want["status"] >= 400 }],
    [:thruster, "neither cuts ranges nor compares dates or weak tags", ->(program, requests) { program.sent?(requests, *CONDITIONS) }],
    [:thruster, "does not ask whether a stale response is still the same",
     ->(program, _) { program.has?("etag") || program.has?("last-modified") }]
  ].freeze

  # Draws programs.
  class Draw
    def initialize(seed)
      @seed = seed
      @random = Random.new(seed)
      @count = 0
    end

    # Few kinds of requests make a program, so that each has a chance to be the only difference.
    def program
      headers = { "cache-control" => pick(CONTROLS) }.compact.merge(pick(EXTRAS), chance(0.3) ? pick(EXTRAS) : {})
      headers = headers.to_a.shuffle(random: @random).to_h
      want = { "status" => pick(STATUSES), "headers" => headers, "bytes" => pick([10, 10, 10, 2000, 2_000_000]) }
      kinds = [["GET", {}], pick(REQUESTS), pick(REQUESTS)]
      requests = Array.new(3 + @random.rand(6)) { pick(kinds) }
      Program.new("s#{@seed}-#{@count += 1}", want, requests, @random.rand(1..(requests.size - 1)))
    end

    private

    def pick(list) = list[@random.rand(list.size)]
    def chance(share) = @random.rand < share
  end

  # A running server, and its app behind it.
  class Server
    attr_reader :name, :pid

    # `app_port`: where the app itself counts.
    def initialize(name, port, app_port, *command)
      @name = name
      @pid = command.any? ? spawn(*command, out: File::NULL, err: File::NULL) : nil
      [port, app_port].each { |each| GyreTest::Ports.await(each, within_s: 60) }
      @http, @app = [port, app_port].map { |each| Net::HTTP.new("127.0.0.1", each, nil).tap { |http| http.keep_alive_timeout = 60 and http.start } }
    end

    # Returns status, body and whether the app was asked.
    def result(program, method, headers)
      before = count(program)
      request = Net::HTTPGenericRequest.new(method, method == "POST", method != "HEAD", program.path,
                                            { "accept-encoding" => "identity", "host" => "cache.test" }.merge(headers))
      request.body = "" if method == "POST"
      response = @http.request(request)
      [response.code.to_i, response.body.to_s.strip, count(program) > before ? :app : :kept]
    end

    def stop
      [@http, @app].each(&:finish)
      @pid && Process.kill(:TERM, @pid) && Process.wait(@pid)
    end

    private

    def count(program) = @app.get("/counts?#{program.id}").body
  end

  class << self
    def run(seed, seconds, puma, thruster)
      Dir.mktmpdir("gyre") do |folder|
        File.chmod(0o755, folder)
        File.write("#{folder}/config.ru", APP)
        servers = []
        start(servers, folder, puma, thruster)
        until_s = now + seconds
        draw = Draw.new(seed)
        totals = Hash.new(0)
        loop do
          batch(Array.new(40) { draw.program }, servers, totals)
          break if now > until_s
        end
        File.write(ENV["GYRE_TEST_COUNTS"], "#{totals["programs"]} 0 0") if ENV["GYRE_TEST_COUNTS"]
        puts "cache: #{totals.map { |name, count| "#{count} #{name}" }.join(", ")}; no other difference (SEED=#{seed})"
      ensure
        servers.reverse_each(&:stop)
      end
    end

    private

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    def start(servers, folder, puma, thruster)
      gyre, app, nginx, front, behind = free_ports(5)
      environment = ENV.keys.grep(/\ABUNDLE|\ARUBY(?:OPT|LIB)/).to_h { |name| [name, nil] }.merge("BUNDLE_GEMFILE" => "#{puma}/Gemfile")
      bin = Dir["#{puma}/gems/#{RUBY_ENGINE}/*/bin/puma"].first
      command = ->(port) { [RbConfig.ruby, "-rbundler/setup", bin, "-t", "1:1", "-b", "tcp://127.0.0.1:#{port}", "#{folder}/config.ru"] }
      serve = %w[-Ilib -rbundler/setup exe/gyre serve -C - --cache 64M -e production -b]
      servers << Server.new(:gyre, gyre, gyre, environment, RbConfig.ruby, *serve, "tcp://127.0.0.1:#{gyre}", "#{folder}/config.ru")
      servers << Server.new(:puma, app, app, environment, *command[app]) # nginx's app
      servers << Server.new(:nginx, nginx, app, *nginx(folder, nginx, app))
      return unless thruster

      ports = { "HTTP_PORT" => front.to_s, "TARGET_PORT" => behind.to_s, "GZIP_COMPRESSION_ENABLED" => "false", "STORAGE_PATH" => folder }
      servers << Server.new(:thruster, front, behind, environment.merge(ports), thruster, *command[behind])
    end

    def nginx(folder, port, app)
      File.write("#{folder}/nginx.conf", <<~CONFIGURATION)
        #{"user root;" if Process.uid.zero?}
        daemon off; pid #{folder}/nginx.pid; worker_processes 1; error_log #{folder}/nginx.log;
        events { }
        http {
          access_log off;
          #{%w[client_body proxy fastcgi uwsgi scgi].map { |name| "#{name}_temp_path #{folder}/tmp-#{name};" }.join}
          proxy_cache_path #{folder}/cache keys_zone=all:8m;
          server {
            listen 127.0.0.1:#{port};
            location / {
              proxy_pass http://127.0.0.1:#{app}; proxy_http_version 1.1; proxy_set_header Host $http_host;
              proxy_cache all; proxy_cache_key $scheme$http_host$request_uri; proxy_cache_revalidate on; proxy_cache_lock on;
              proxy_max_temp_file_size 0;
            }
          }
        }
      CONFIGURATION
      program = [*ENV["PATH"].split(":"), "/usr/sbin"].map { |each| "#{each}/nginx" }.find { |file| File.executable?(file) }
      [program, "-p", folder, "-c", "#{folder}/nginx.conf"]
    end

    def free_ports(count) = Array.new(count) { TCPServer.new("127.0.0.1", 0) }.map { |server| server.local_address.ip_port.tap { server.close } }

    # Runs programs up to their pauses, pauses once for all, and runs the rest.
    def batch(programs, servers, totals)
      ours, *others = servers.reject { |server| server.name == :puma }
      compared = programs.to_h { |program| [program, others.dup] }
      programs.each { |program| part(program, 0...program.pause, ours, compared, totals) }
      sleep(SHORT_S + 1.5)
      programs.each { |program| part(program, program.pause..., ours, compared, totals) }
      totals["programs"] += programs.size
    end

    # Results of a part that took too long say nothing: short lifetimes may have ended within it.
    def part(program, range, ours, compared, totals)
      started = now
      results = [ours, *compared[program]].to_h { |server| [server, program.requests[range].map { |request| server.result(program, *request) }] }
      return compared[program] = [] if now - started > SHORT_S - 1

      compared[program].dup.each do |server|
        results[ours].zip(results[server]).each_with_index do |(mine, theirs), index|
          totals["requests compared with #{server.name}"] += 1
          next if mine == theirs

          explain(program, range.begin + index, mine, theirs, server.name)
          compared[program].delete(server)
          break
        end
      end
    end

    def explain(program, index, mine, theirs, name)
      requests = program.requests[0..index]
      return if DIFFERENCES.any? { |server, _, explains| [:both, name].include?(server) && explains.call(program, requests) }

      shorten = ->((status, body, source)) { [status, body[0, 40], body.bytesize, source] }
      abort "cache: #{program.want} #{requests} (pause after #{program.pause}):\n  gyre #{shorten[mine]}\n  #{name} #{shorten[theirs]}"
    end
  end
end

if $PROGRAM_NAME == __FILE__
  seed, seconds, puma, thruster = ARGV
  CacheDifferential.run(Integer(seed), Float(seconds), puma, thruster)
end
