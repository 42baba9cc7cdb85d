# frozen_string_literal: true

# The tests: every file in a process of its own, with warnings on. What the suite adds to Minitest
# is in test/support.
require "rbconfig"
require "rubygems/remote_fetcher"
require_relative "../test/support/parts"

# How the tasks start a run of the suite.
module GyreSuite
  # Where Ruby's own libraries meet Gyre: timeouts, HTTP clients, TLS, names, JSON.
  NEWEST_GEMS = %w[test/{scheduler,run,deadline,task}_test.rb test/task/*_test.rb test/scheduler/*_test.rb
                   test/net/{tls,endpoint,listener}_test.rb test/sync/queue_test.rb
                   test/contracts/http_contract_{limits,rack}_test.rb test/contracts/log_ingest_input_test.rb
                   test/http/h2/gem_client_test.rb test/http/client/{faraday,webmock}_test.rb test/opentelemetry_test.rb
                   test/log/{client,ingest/json_lines,client/logger_methods,server_inputs}_test.rb].freeze

  # Minitest's option for what is the same over every backend.
  ONE_BACKEND = %w[--exclude /::(?:Select|IoUring|Kqueue)#/].freeze

  module_function

  # Runs test files (all of them when none is named) in a Ruby of their own.
  def run(*files, environment: {}, command: [RbConfig.ruby], root: GyreBuild.root)
    options = ENV["TESTOPTS"].to_s.split
    system(environment, *command, "-w", "test/support/run.rb", *files, *options, chdir: root)
  end

  # Installs the bundle of that name when it is not there.
  def bundle(name)
    environment = unbundled.merge("GYRE_BUNDLE" => name)
    system(environment, "bin/bundle", "check", out: File::NULL, err: File::NULL, chdir: GyreBuild.root) ||
      system(environment, "bin/bundle", "install", "--quiet", chdir: GyreBuild.root)
  end

  # The same for a task that needs more than the tests' gems: where gems come from does not respond,
  # it is skipped; anything else that keeps them away ends it.
  def bundle_or_skip(name)
    return true if bundle(name)

    gems = "the gems of test/#{name}/gems.rb"
    source = Gem.sources.first.uri
    abort "#{gems} could not be installed" if responds?(source)
    skip "#{gems} are not installed, and #{source} does not respond"
  end

  # Returns whether it has what RubyGems asks each source for.
  def responds?(source)
    Gem::RemoteFetcher.fetcher.fetch_path(source + "specs.4.8.gz", nil, true) # a HEAD request
    true
  rescue Gem::RemoteFetcher::FetchError
    false
  end

  # Counts the task as one skipped test.
  def skip(reason)
    puts "SKIPPED: #{reason}"
    write_counts([0, 0, 1])
    false
  end

  # For .ci/run.
  def write_counts(counts)
    path = ENV["GYRE_TEST_COUNTS"]
    File.write(path, "#{counts.join(" ")}\n") if path
  end

  # What takes a process out of the bundle that Rake runs in.
  def unbundled
    ENV.keys.grep(/\ABUNDLE/).push("RUBYOPT", "RUBYLIB").to_h { |name| [name, nil] }
  end
end

desc "Run the tests but for the long ones (TEST=files for some of them, TESTOPTS for Minitest's options)"
task(test: :compile) { GyreSuite.run(*ENV["TEST"].to_s.split(/[,\s]+/)) || abort }

namespace :test do
  desc "Do what a new user does first: bin/demo, the gem under a Gemfile, the README's table"
  task(first_minutes: :compile) { GyreSuite.run(*GyreTest::PARTS["first_minutes"]) || abort }

  desc "Answer uploads of up to 200 MB early, 200 times each, directly and through nginx, haproxy and Thruster"
  task early_answers: :compile do
    GyreSuite.run("test/stress/early_answers_test.rb", environment: { "EARLY_ANSWERS" => ENV.fetch("RUNS", "200") }) || abort
  end

  desc "Run the gem's test: built, installed and started as by a user"
  task(gem: :compile) { GyreSuite.run(*GyreTest::PARTS["gem"]) || abort }

  desc "Run the showcase's page, and pages over HTTP/2, in a headless Chromium"
  task browser: :compile do
    sh "bin/setup", "--with", "chromium", verbose: false
    GyreSuite.run(*GyreTest::PARTS["browser"]) || abort
  end

  desc "Have Prometheus' promtool parse what /metrics gives; its lint (status 3) is for the older text format"
  task promtool: :compile do
    sh "bin/setup", "--with", "prometheus", verbose: false
    metrics = 'require "gyre/web/control/metrics"; require "gyre/web/server"; ' \
              'server = Gyre::Web::Server.new(->(_) { [200, {}, []] }, bind: "127.0.0.1:0").listen; ' \
              "puts Gyre::Web::Metrics.text(server.snapshots)"
    sh "#{RbConfig.ruby} -Ilib -e '#{metrics}' | promtool check metrics || test $? = 3", verbose: false
  end

  desc "Run the tests that use Ruby's own libraries with the newest releases of those as gems (TEST=files for others)"
  task newest_gems: :compile do
    next unless GyreSuite.bundle_or_skip("newest_gems")

    named = ENV["TEST"].to_s.split(/[,\s]+/)
    files = named.empty? ? Dir[*GyreSuite::NEWEST_GEMS].sort : named
    GyreSuite.run(*files, *GyreSuite::ONE_BACKEND, environment: GyreSuite.unbundled.merge("GYRE_TEST_BUNDLE" => "newest_gems")) || abort
  end

  desc "Serve Rails, Sinatra, Roda, Hanami, Grape and Sidekiq's pages in their newest versions (Ruby 3.2 or newer)"
  task frameworks: :compile do
    sh "bin/setup", "--with", "postgresql", verbose: false
    next unless GyreSuite.bundle_or_skip(RUBY_VERSION < "3.2" ? "rails71" : "frameworks")

    GyreSuite.run(*GyreTest::PARTS["frameworks"]) || abort
  end

  desc "Run the portable engine's tests on JRuby 10; fetches it the first time"
  task jruby: :compile do
    GyreSuite.run(*GyreTest::PARTS["jruby"]) || abort
  end

  desc "Compare logs with the analogger gem: each of its peers with each of ours, and what outages do to both"
  task(analogger: :compile) { GyreSuite.run(*GyreTest::PARTS["analogger"]) || abort }

  desc "Restart a web server with workers twenty times in each way, under load (GYRE_RESTARTS=times)"
  task(restarts: :compile) { GyreSuite.run(*GyreTest::PARTS["restarts"], environment: { "GYRE_TEST_LIMIT_S" => "900" }) || abort }

  desc "Load two workers over TLS for ten minutes, with restarts: nothing is lost, nothing grows (SECONDS=how long)"
  task soak: :compile do
    limit_s = Integer(ENV.fetch("SECONDS", "600")) * 2 + 300
    GyreSuite.run(*GyreTest::PARTS["soak"], "-v", environment: { "GYRE_TEST_LIMIT_S" => limit_s.to_s }) || abort
  end

  desc "Use and lose 5,000 WebSockets and event streams of two workers for ten minutes: nothing grows, counters end at zero (SECONDS, SOCKETS)"
  task churn: :compile do
    limit_s = Integer(ENV.fetch("SECONDS", "600")) * 2 + 300
    GyreSuite.run(*GyreTest::PARTS["churn"], "-v", environment: { "GYRE_TEST_LIMIT_S" => limit_s.to_s }) || abort
  end

  desc "Broadcast for a minute from everywhere to all kinds of subscribers, with restarts, and 20 MB to 1,100 at once (GYRE_MODEL_S, GYRE_ROOM)"
  task realtime: :compile do
    environment = { "GYRE_MODEL_S" => "60", "GYRE_ROOM" => "1000", "GYRE_TEST_LIMIT_S" => "900" }
    files = %w[bursts model room].map { |name| "test/broadcast/#{name}_test.rb" }
    GyreSuite.run(*files, "-v", environment: environment.merge(ENV.slice(*environment.keys))) || abort
  end

  desc "Use the HTTP client in every way for ten minutes, and leave in every way: nothing is left open (SECONDS=how long)"
  task "churn:client" => :compile do
    limit_s = Integer(ENV.fetch("SECONDS", "600")) * 2 + 300
    GyreSuite.run(*GyreTest::PARTS["churn:client"], "-v", environment: { "GYRE_TEST_LIMIT_S" => limit_s.to_s }) || abort
  end

  desc "Ask Debian's Apache, which is installed for it, over HTTP/1.1, TLS and HTTP/2"
  task apache: :compile do
    sh "bin/setup", "--with", "apache2", verbose: false
    GyreSuite.run(*GyreTest::PARTS["apache"]) || abort
  end

  desc "Order certificates under 20,000 handshakes (GYRE_HANDSHAKES), kills at every step, restarts, with a full disk, a wrong clock"
  task acme: :compile do
    environment = { "GYRE_HANDSHAKES" => "20000", "GYRE_EACH_STEP" => "1", "GYRE_TEST_LIMIT_S" => "900" }
    files = [*GyreTest::PARTS["acme"], "test/web/acme/keeper_test.rb"]
    GyreSuite.run(*files, "-v", environment: environment.merge(ENV.slice(*environment.keys))) || abort
  end

  desc "Cut connections to memcached after each of their bytes, plain, over TLS and on Unix sockets"
  task memcached: :compile do
    GyreSuite.run("test/memcached/faults_test.rb", environment: { "GYRE_MEMCACHED_EACH_BYTE" => "1", "GYRE_TEST_LIMIT_S" => "900" }) || abort
  end

  desc "Kill log servers and writers 200 times (GYRE_LOG_KILLS=times as often, GYRE_SEED repeats a run's draws)"
  task(crash: :compile) { GyreSuite.run(*GyreTest::PARTS["crash"]) || abort }
end
