# frozen_string_literal: true

# Gems on EventMachine by their own specs, with Gyre under its name: those that the gems carry, and
# thin's and faye-websocket's from their repositories (clones of them in GYRE_EVENT_MACHINE_SOURCES,
# or by git). They use fixed ports, redis and memcached, so they run in a network namespace of their
# own. GEM=names chooses some.
require "json"
require "rbconfig"
require_relative "../test/conformance/event_machine_gems/suites"

# How the suites are run, and what is printed about it.
module GyreEventMachineGems
  LIMIT_S = 300
  HELP = "test/conformance/event_machine_gems/help.rb"
  # Servers on their usual ports, until the command ends.
  NAMESPACE = ["unshare", *("--map-root-user" unless Process.uid.zero?), "--net", "sh", "-c",
               "ip link set lo up; redis-server --save '' >/dev/null & redis=$!; memcached -u root -l 127.0.0.1 & memcached=$!; sleep 1; " \
               "\"$@\"; status=$?; kill $redis $memcached; exit $status", "sh"].freeze

  module_function

  # Returns the counts of passed, failed and skipped examples.
  def run(name, suite, folder)
    source = suite[:repository] ? clone(name, suite, folder) : gem_folder(name)
    return skip(name, "its repository cannot be had") unless source

    results = File.join(folder, "event_machine_gems-#{name}.json")
    FileUtils.rm_f(results)
    system(environment, *NAMESPACE, "timeout", "--kill-after=5", LIMIT_S.to_s, RbConfig.ruby, "-W0", "-I#{GyreBuild.root}/lib", "-rbundler/setup",
      "-r#{GyreBuild.root}/#{HELP}", "-S", "rspec", "-I.", "-Ilib", "-Ispec", "--format", "json", "--out", results, *suite[:specs],
      chdir: source, in: File::NULL, out: results.sub("json", "log"), err: %i[child out])
    judge(name, suite, results)
  end

  def judge(name, suite, results)
    return fail_for(name, "did not come to its end: see #{results.sub("json", "log")}") unless File.exist?(results)

    examples = JSON.parse(File.read(results)).fetch("examples")
    return fail_for(name, "has no example") if examples.empty?

    failed = examples.select { |example| example["status"] == "failed" }
    known, unknown = failed.partition { |example| example["id"].start_with?(*suite[:failing].map { |id| "./#{id}" }) }
    unknown.each { |example| puts "  #{name}: failed: #{example["id"]} #{example["full_description"]}" }
    passed = examples.count { |example| example["status"] == "passed" }
    puts format("%-16s %4d passed, %d failed, %d fail with EventMachine, too", name, passed, unknown.size, known.size)
    [passed, unknown.size, known.size]
  end

  def skip(name, reason)
    puts "#{name}: SKIPPED, #{reason}"
    [0, 0, 1]
  end

  def fail_for(name, reason)
    puts "#{name}: #{reason}"
    [0, 1, 0]
  end

  def clone(name, suite, folder)
    target = File.join(folder, name)
    return target if File.directory?(File.join(target, "spec"))

    given = ENV["GYRE_EVENT_MACHINE_SOURCES"]
    from = given ? File.join(given, File.basename(suite[:repository])) : suite[:repository]
    FileUtils.rm_rf(target)
    system({ "GIT_TERMINAL_PROMPT" => "0" }, "timeout", "60", "git", "-c", "advice.detachedHead=false", "clone", "--quiet", "--depth", "1",
      *(["--branch", suite[:tag]] if suite[:tag]), from, target, in: File::NULL, out: File::NULL, err: File::NULL) && target
  end

  def gem_folder(name)
    IO.popen(environment, [RbConfig.ruby, "-rbundler/setup", "-e", "print Gem.loaded_specs.fetch(ARGV[0]).gem_dir", name], &:read)
  end

  def environment
    folder = File.join(GyreBuild.root, "vendor/bundle/event_machine_gems-#{RUBY_ENGINE}-#{RbConfig::CONFIG["ruby_version"]}")
    GyreSuite.unbundled.merge("BUNDLE_GEMFILE" => "#{folder}/Gemfile")
  end
end

namespace :test do
  desc "Start thin, mailcatcher, jekyll's livereload, em-http-request, em-websocket, faye and nats by gyre em, and use each once"
  task event_machine_programs: :compile do
    next unless GyreSuite.bundle_or_skip("event_machine_programs")

    folder = File.join(GyreBuild.root, "vendor/bundle/event_machine_programs-#{RUBY_ENGINE}-#{RbConfig::CONFIG["ruby_version"]}")
    system(GyreSuite.unbundled, RbConfig.ruby, "test/event_machine_programs/run.rb", folder, chdir: GyreBuild.root) ||
      abort("test:event_machine_programs: a program fails")
  end
end

namespace :conformance do
  desc "Run the own specs of gems on EventMachine against Gyre under its name (GEM=names, GYRE_EVENT_MACHINE_SOURCES=a folder of clones)"
  task event_machine_gems: :compile do
    folder = File.join(GyreBuild.root, "tmp", "conformance")
    mkdir_p folder, verbose: false
    missing = %w[unshare redis-server memcached].reject { |program| system("command -v #{program} >/dev/null") }
    obstacle = "missing: #{missing.join(", ")}" if missing.any?
    obstacle ||= "the gems of test/event_machine_gems/gems.rb could not be installed" unless GyreSuite.bundle("event_machine_gems")
    chosen = GyreConformance::EVENT_MACHINE_SUITES
    chosen = chosen.slice(*ENV["GEM"].split(/[,\s]+/)) if ENV["GEM"]
    counts = obstacle ? [0, 0, 1] : chosen.map { |name, suite| GyreEventMachineGems.run(name, suite, folder) }.transpose.map(&:sum)
    puts obstacle ? "Gems on EventMachine: SKIPPED, #{obstacle}" : format("Gems on EventMachine: %d passed, %d failed, %d skipped", *counts)
    GyreSuite.write_counts(counts)
    abort unless counts[1].zero?
  end
end
