# frozen_string_literal: true

# What `bench/blocking` measures: common ways to wait or to work, each for half a second when
# alone. blocking_child.rb runs one of them; blocking_servers.rb has the servers.

module Bench
  # Each row prepares itself in its block, and returns what one of ten fibers is to do.
  module BlockingWork
    WAIT_S = 0.5

    # A row: `gem` is what it needs, `server` what has to run for it.
    Row = Struct.new(:name, :gem, :server, :prepare, keyword_init: true)

    ROWS = []

    def self.row(name, gem: nil, server: nil, &prepare)
      ROWS << Row.new(name: name, gem: gem, server: server, prepare: prepare)
    end

    # How often the block runs in half a second of one thread, in which it is then run.
    def self.repeated(&work)
      work.call
      from = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      runs = 0
      (work.call && runs += 1) while Process.clock_gettime(Process::CLOCK_MONOTONIC) - from < WAIT_S
      -> { runs.times { work.call } }
    end

    # One call that takes half a second: the block is given a size that is doubled until it does.
    def self.sized(first)
      size = first
      loop do
        work = yield(size)
        from = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        work.call
        return work if Process.clock_gettime(Process::CLOCK_MONOTONIC) - from >= WAIT_S * 0.7

        size *= 2
      end
    end

    # Runs the block in a thread after half a second, meanwhile the fiber waits for it.
    def self.later = Thread.new { sleep(WAIT_S) && yield }

    def self.fibonacci(number) = number < 2 ? number : fibonacci(number - 1) + fibonacci(number - 2)

    HTTP = "http://127.0.0.1:#{ENV["BENCH_HTTP_PORT"]}/".freeze

    # Ruby's own waits.
    row("`sleep`") { -> { sleep(WAIT_S) } }
    row("`Thread::Queue#pop`") { -> { Thread::Queue.new.then { |queue| later { queue << 1 } && queue.pop } } }
    row("`Mutex#lock`, held by a thread") do
      lambda do
        lock = Mutex.new
        held = Thread::Queue.new
        holder = Thread.new { lock.synchronize { (held << 1) && sleep(WAIT_S) } }
        held.pop
        lock.synchronize { holder }.join
      end
    end
    row("`ConditionVariable#wait`") { -> { Mutex.new.then { |lock| lock.synchronize { ConditionVariable.new.wait(lock, WAIT_S) } } } }
    row("`Timeout.timeout`") do
      require "timeout"
      lambda do
        Timeout.timeout(WAIT_S) { sleep }
      rescue Timeout::Error
        nil
      end
    end
    row("`Thread#join`") { -> { later { nil }.join } }
    row("`system`") { -> { system("sleep", WAIT_S.to_s) } }
    row("backticks") { -> { `sleep #{WAIT_S}` } }
    row("`Process.wait`") { -> { Process.wait(Process.spawn("sleep", WAIT_S.to_s)) } }
    row("`IO.popen`") { -> { IO.popen(["sleep", WAIT_S.to_s], &:read) } }
    row("`Open3.capture2`") do
      require "open3"
      -> { Open3.capture2("sleep", WAIT_S.to_s) }
    end
    row("`IO.select`") { -> { IO.pipe.then { |ends| later { ends[1].write("x") } && IO.select([ends[0]]) && ends.each(&:close) } } }
    row("`Addrinfo.getaddrinfo`, a slow name server", server: :names) do
      require "socket"
      -> { Addrinfo.getaddrinfo("localhost", 80) }
    end
    row("`File#flock`, held by another") do
      require "tempfile"
      lambda do
        Tempfile.create do |file|
          File.open(file.path) do |holder|
            holder.flock(File::LOCK_EX)
            waiting = later { holder.flock(File::LOCK_UN) }
            file.flock(File::LOCK_SH)
            waiting.join
          end
        end
      end
    end

    # Clients.
    row("`TCPSocket`", server: :http) do
      require "socket"
      -> { TCPSocket.open("127.0.0.1", ENV["BENCH_HTTP_PORT"]) { |socket| socket.write("GET / HTTP/1.1\r\n\r\n") && socket.read } }
    end
    row("`Net::HTTP`", server: :http) do
      require "net/http"
      -> { Net::HTTP.get(URI(HTTP)) }
    end
    row("Faraday (its default, `Net::HTTP`)", gem: "faraday", server: :http) { -> { Faraday.get(HTTP) } }
    row("httpx", gem: "httpx", server: :http) { -> { HTTPX.get(HTTP).raise_for_status } }
    row("Typhoeus (libcurl)", gem: "typhoeus", server: :http) { -> { Typhoeus.get(HTTP) } }
    row("pg", gem: "pg", server: :postgres) do
      -> { PG.connect(host: ENV["BENCH_POSTGRES"], user: "gyre", dbname: "postgres").tap { |db| db.exec("SELECT pg_sleep(#{WAIT_S})") }.close }
    end
    row("mysql2", gem: "mysql2", server: :mysql) do
      -> { Mysql2::Client.new(socket: ENV["BENCH_MYSQL"], username: "root").tap { |db| db.query("SELECT SLEEP(#{WAIT_S})") }.close }
    end
    row("trilogy", gem: "trilogy", server: :mysql) do
      -> { Trilogy.new(socket: ENV["BENCH_MYSQL"], username: "root").tap { |db| db.query("SELECT SLEEP(#{WAIT_S})") }.close }
    end
    row("sqlite3, a query that computes", gem: "sqlite3") do
      sized(10_000) do |size|
        sql = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < #{size}) SELECT max(x) FROM n"
        -> { SQLite3::Database.new(":memory:").tap { |db| db.execute(sql) }.close }
      end
    end
    [%w[busy_timeout busy_timeout], ["busy_handler_timeout (as Rails sets it)", "busy_handler_timeout"]].each do |title, setting|
      row("sqlite3, a locked database, `#{title.sub(' (', '` (')}#{'`' unless title.include?('(')}", gem: "sqlite3") do
        require "tmpdir"
        path = File.join(Dir.mktmpdir.tap { |folder| at_exit { FileUtils.rm_rf(folder) } }, "a.sqlite3")
        SQLite3::Database.new(path).tap { |db| db.execute("CREATE TABLE a(b)") }.execute("BEGIN EXCLUSIVE")
        lambda do
          db = SQLite3::Database.new(path)
          db.public_send("#{setting}=", (WAIT_S * 1000).to_i)
          db.execute("SELECT * FROM a")
        rescue SQLite3::BusyException
          db.close
        end
      end
    end
    row("redis (`BLPOP`)", gem: "redis", server: :redis) do
      -> { Redis.new(path: ENV["BENCH_REDIS"]).tap { |redis| redis.blpop("empty", timeout: WAIT_S) }.close }
    end
    row("hiredis-client (`BLPOP`)", gem: "hiredis-client", server: :redis) do
      lambda do
        client = RedisClient.config(path: ENV["BENCH_REDIS"], driver: :hiredis).new_client
        client.blocking_call(nil, "BLPOP", "empty", WAIT_S)
        client.close
      end
    end
    row("Dalli", gem: "dalli", server: :memcached) do
      -> { Dalli::Client.new("127.0.0.1:#{ENV["BENCH_MEMCACHED_PORT"]}").tap { |cache| cache.get("slow") }.close }
    end

    # Work.
    row("Ruby that computes") { repeated { fibonacci(18) } }
    row("`File.read` of 1 MB, cached") do
      require "tempfile"
      path = Tempfile.create.tap { |file| file.write("x" * (1 << 20)) && file.close }.path
      at_exit { File.unlink(path) }
      repeated { File.read(path) }
    end
    row("bcrypt, cost 12", gem: "bcrypt") { repeated { BCrypt::Engine.hash_secret("secret", "$2a$12$#{'a' * 22}") } }
    row("`OpenSSL::KDF.pbkdf2_hmac`") do
      require "openssl"
      repeated { OpenSSL::KDF.pbkdf2_hmac("password", salt: "salt", iterations: 100_000, length: 32, hash: "SHA256") }
    end
    row("`OpenSSL::Digest` of 1 MB") do
      require "openssl"
      text = Random.bytes(1 << 20)
      repeated { OpenSSL::Digest::SHA256.digest(text) }
    end
    row("`Digest` of 1 MB") do
      require "digest"
      text = Random.bytes(1 << 20)
      repeated { Digest::SHA256.digest(text) }
    end
    row("`Zlib.deflate` of 1 MB") do
      require "zlib"
      text = Random.bytes(1 << 20)
      repeated { Zlib.deflate(text) }
    end
    row("`JSON.parse`, one call") do
      require "json"
      sized(1 << 20) { |size| JSON.generate(Array.new(size) { 1 }).then { |text| -> { JSON.parse(text) } } }
    end
    row("a regular expression, one match") { sized(100) { |size| -> { ("a" * size).match?(/(a*)a*\1b/) } } }
    row("`Array#sort` of numbers, one call") do
      sized(1 << 20) { |size| Array.new(size) { |number| number * 7_919 % size }.then { |list| -> { list.sort } } }
    end
  end
end
