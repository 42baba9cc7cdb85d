# frozen_string_literal: true

# Comparisons with other programs that do the same work; what differs on purpose is in a table with
# its reason. Those by seed are bounded by SECONDS.
require "fileutils"
require "rbconfig"
require "tmpdir"
require_relative "../test/conformance/eventmachine/source"

# How comparisons of DNS are started.
module GyreCompare
  # Binds files of a folder over the system's, in a mount namespace of its own.
  ENTER = <<~'SH'
    set -e
    ip link set lo up
    for file in resolv.conf hosts nsswitch.conf; do mount --bind "$1/$file" "/etc/$file"; done
    shift
    exec "$@"
  SH

  module_function

  # False with a reason where namespaces are not allowed: the part counts as skipped.
  def namespaces?
    system("bin/setup", "--with", "name-servers", chdir: GyreBuild.root)
    return true if system("unshare", "--net", "--mount", "true", out: File::NULL, err: File::NULL)

    skip("network namespaces take root and the programs unshare and ip")
  end

  def programs?(*names)
    system("bin/setup", "--with", "name-servers", chdir: GyreBuild.root)
    missing = missing(*names)
    missing.empty? || skip("#{missing.join(", ")} missing")
  end

  def missing(*names)
    names.reject { |name| ENV["PATH"].split(":").push("/usr/sbin").any? { |folder| File.executable?(File.join(folder, name)) } }
  end

  def skip(reason)
    puts "SKIPPED: #{reason}"
    File.write(ENV["GYRE_TEST_COUNTS"], "0 0 1") if ENV["GYRE_TEST_COUNTS"]
    false
  end

  def resolver
    Dir.mktmpdir do |folder|
      { "resolv.conf" => "", "hosts" => "", "nsswitch.conf" => "hosts: files dns\n" }.each { |name, text| File.write(File.join(folder, name), text) }
      run("unshare", "--net", "--mount", "sh", "-c", ENTER, "enter", folder, *ruby("resolver"))
    end
  end

  def zones = run(*ruby("zones"))

  # Returns the path of Thruster, which is installed the first time; nil where there is none.
  def thruster
    folder = File.join(GyreBuild.root, "tmp", "thruster")
    install = %w[gem install thruster -v 0.1.27 --no-document -i]
    system(GyreSuite.unbundled, *install, folder, out: File::NULL) unless File.directory?(folder)
    found = Dir["#{folder}/gems/thruster-*/exe/*/thrust"].first
    found || warn("compare:cache: the gem thruster is not there for this platform, so its share is left out")
  end

  def ruby(name) = [RbConfig.ruby, "-Ilib", "test/compare/#{name}.rb"]

  def run(*command) = system(*command) || abort("compare: #{command.last} found differences")
end

namespace :compare do
  desc "Compare how rsyslogd (Debian: rsyslog, rsyslog-gnutls; RSYSLOGD names it) and gyre log read 200 lines; SAMPLE=10 takes each tenth"
  task syslog: :compile do
    sh({ "TZ" => "UTC" }, RbConfig.ruby, "-Ilib", "test/compare/syslog.rb", chdir: GyreBuild.root)
  end

  desc "Compare the resolver with glibc's getaddrinfo at misbehaving name servers (SEED, SECONDS)"
  task(resolver: :compile) { GyreCompare.resolver if GyreCompare.namespaces? }

  desc "Compare answers and checks of random zones with nsd, knot, named-checkzone and delv (SEED, SECONDS)"
  task(zones: :compile) { GyreCompare.zones if GyreCompare.programs?("nsd", "knotd", "named-checkzone", "delv", "ldns-keygen", "ldns-signzone") }

  desc "Compare random programs of EventMachine on the gem, where it compiles, and on Gyre (SEED, SECONDS)"
  task event_machine: :compile do
    folder = File.join(GyreBuild.root, "tmp", "conformance")
    original = GyreConformance::EventMachineSource.new(folder).original
    next GyreCompare.skip("EventMachine cannot be compiled here") unless original

    seed, seconds = ENV.fetch("SEED") { rand(1_000_000).to_s }, ENV.fetch("SECONDS", "60")
    system(GyreSuite.unbundled, RbConfig.ruby, "test/compare/event_machine.rb", seed, seconds, *original, chdir: GyreBuild.root) ||
      abort("compare:event_machine found differences: SEED=#{seed} SECONDS=#{seconds}")
  end

  desc "Compare the cache of gyre serve with nginx's and Thruster's in front of Puma by random requests (SEED, SECONDS)"
  task cache: :compile do
    next GyreCompare.skip("nginx is missing") if GyreCompare.missing("nginx").any?
    next unless GyreSuite.bundle_or_skip("async")

    gems = File.join(GyreBuild.root, "vendor", "bundle", "async-#{RUBY_ENGINE}-#{RbConfig::CONFIG["ruby_version"]}")
    given = [ENV.fetch("SEED") { rand(1_000_000).to_s }, ENV.fetch("SECONDS", "60"), gems, GyreCompare.thruster].compact
    sh(GyreSuite.unbundled, RbConfig.ruby, "-Ilib", "test/compare/cache.rb", *given, chdir: GyreBuild.root)
  end

  desc "Compare the HTTP client with curl and Net::HTTP at node, nginx, Apache and Puma by random requests (REQUESTS, SEED)"
  task client: :compile do
    missing = %w[node curl].reject { |name| system("which", name, out: File::NULL) }
    next puts("compare:client needs #{missing.join(" and ")}: SKIPPED") unless missing.empty?

    seed = ENV.fetch("SEED") { rand(1_000_000).to_s }
    sh(RbConfig.ruby, "-Ilib", "test/compare/client.rb", ENV.fetch("REQUESTS", "3000"), seed, chdir: GyreBuild.root)
  end
end
