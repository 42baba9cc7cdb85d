# frozen_string_literal: true

# Runs one of Dalli's test files with Gyre's client under Dalli's name, in the bundle of
# test/dalli/gems.rb: `ruby runner.rb SOURCE RESULTS FILE`. Each test leaves the lines in RESULTS
# that verdict.rb reads. Root's memcached starts only when it is told to run as root; a script of
# that name, earlier in the PATH, tells it.
require "fileutils"
require "tmpdir"
source, results, file = ARGV
ARGV.clear
require "gyre/memcached/dalli"
require "minitest"

RESULTS = File.open(results, "a")
RESULTS.sync = true

# Writes down what becomes of each test. Its number in the file is left out of its name.
class RecordResults < Minitest::AbstractReporter
  def self.name_of(suite, test) = "#{suite}##{test.delete_prefix("test_").sub(/\A\d+_/, "")}".tr("\t", " ")

  def prerecord(suite, test)
    RESULTS.puts "started #{RecordResults.name_of(suite, test)}"
  end

  def record(result)
    verdict = if result.passed? then "passed"
              elsif result.skipped? then "omitted"
              else "failed"
              end
    detail = result.failures.map { |failure| "#{failure.class}: #{failure.message}" }.join(" / ").gsub(/\s+/, " ")[0, 500]
    RESULTS.puts "#{verdict} #{RecordResults.name_of(result.klass, result.name)}\t#{detail}"
  end
end

Minitest.extensions << "gyre"
def Minitest.plugin_gyre_init(_options) = reporter << RecordResults.new
Minitest.after_run { RESULTS.puts "finished" }

if Process.uid.zero?
  folder = Dir.mktmpdir("gyre-conformance")
  memcached = ENV["PATH"].split(":").map { |place| File.join(place, "memcached") }.find { |path| File.executable?(path) }
  File.write("#{folder}/memcached", "#!/bin/sh\nexec #{memcached} -u root \"$@\"\n")
  File.chmod(0o755, "#{folder}/memcached")
  ENV["PATH"] = "#{folder}:#{ENV["PATH"]}"
  owner = Process.pid
  at_exit { FileUtils.remove_entry(folder) if Process.pid == owner }
end
$LOAD_PATH.unshift(File.join(source, "test"))
load File.expand_path(file)
