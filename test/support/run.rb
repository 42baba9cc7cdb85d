# frozen_string_literal: true

# Runs test files, each in a process of its own, as many at a time as there are processors
# (or GYRE_TEST_JOBS): `ruby -w test/support/run.rb [FILE or FOLDER …] [Minitest's
# options]`, without a file all but the long ones (parts.rb). Called by bin/test and by Rake's
# tasks. GYRE_TEST_RUBY leaves out what is the same on each Ruby. The last line adds up; the same
# counts go to the file named by GYRE_TEST_COUNTS, from which .ci/run adds up.
require_relative "suite"
require_relative "parts"
require_relative "runner"

named, options = ARGV.partition { |argument| argument.end_with?(".rb") || File.directory?(argument) }
missing = named.reject { |path| File.exist?(path) }
abort "no such test: #{missing.join(", ")}" unless missing.empty?
named = ["test"] if named.empty?
files = named.flat_map do |path|
  inside = File.directory?(path) ? Dir["#{path.chomp("/")}/**/*_test.rb"].sort : [path]
  (inside - GyreTest::PARTS.values.flatten).then { |short| short.empty? ? inside : short } # a long one is named, or its folder is
end
if ENV.delete("GYRE_TEST_RUBY")
  files = files.grep_v(GyreTest::NO_RUBY).grep_v(GyreTest::SAME_ON_EACH_RUBY)
  options.concat(GyreTest::NO_RUBY_TESTS)
end

options.push("--seed", (Random.new_seed % 100_000).to_s) unless options.any? { |option| option.match?(/\A(?:-s|--seed)/) }
options.push("--no-plugins")
counts = ENV.delete("GYRE_TEST_COUNTS")
jobs = Integer(ENV.delete("GYRE_TEST_JOBS") || Etc.nprocessors)
$stdout.sync = true
puts "Run options: #{options.join(" ")}"

start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
runner = GyreTest::Runner.new(files, options, jobs: jobs)
begin
  total = runner.run
rescue Interrupt
  abort "interrupted"
end
runner.print($stdout, Process.clock_gettime(Process::CLOCK_MONOTONIC) - start)
total.write_counts(counts) if counts
puts total
exit total.failed.zero?
