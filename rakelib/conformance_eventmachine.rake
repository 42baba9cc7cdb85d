# frozen_string_literal: true

# EventMachine's own tests, unchanged, on EventMachine and on Gyre under its name, each file in a
# process of its own. The tests listen on fixed ports, so one file runs after another. TEST=files
# chooses some, TEST=sample the quick ones (on Gyre alone); UPDATE=1 writes the guide's table.
require "fileutils"
require "rbconfig"
require_relative "../test/conformance/eventmachine/exceptions"
require_relative "../test/conformance/eventmachine/source"

# How the files are run, and what is printed about it.
module GyreEventMachineConformance
  FILE_LIMIT_S = 60
  GUIDE = "docs/event_machine.md"
  MARKS = /(?<=<!-- conformance:eventmachine -->\n).*?(?=<!-- end -->)/m.freeze

  module_function

  def files(tests)
    all = Dir[File.join(tests, "test_*.rb")].map { |path| File.basename(path) }.sort
    chosen = ENV["TEST"] == "sample" ? GyreConformance::EVENTMACHINE_SAMPLE : ENV["TEST"]&.split(/[,\s]+/) || all
    abort "no such file: #{(chosen - all).join(", ")}" if (chosen - all).any?
    chosen
  end

  # Returns the tests that ran, and whether all passed.
  def run(tests, file, paths, log)
    passed = system(environment, "timeout", "--kill-after=5", FILE_LIMIT_S.to_s, RbConfig.ruby, "-W0", *paths.map { |path| "-I#{path}" }, "-I.",
      file, chdir: tests, in: File::NULL, out: log, err: %i[child out])
    [File.read(log, encoding: "UTF-8").scrub[/^(\d+) tests/, 1].to_i, passed ? true : false]
  end

  # test-unit comes with Ruby.
  def environment = GyreSuite.unbundled.merge("GEM_HOME" => nil, "GEM_PATH" => nil)

  def ours = [File.join(GyreBuild.root, "lib"), File.join(GyreBuild.root, "lib/gyre/event_machine/features")]

  # Returns a row: file, tests, passes there, passes here.
  def compare(tests, file, original, folder)
    there = original && run(tests, file, original, File.join(folder, "em-there-#{file}.log"))
    here = run(tests, file, ours, File.join(folder, "em-here-#{file}.log"))
    puts format("%-34<file>s %<there>s %<here>s", file: file, there: there ? word(there) : "-", here: word(here))
    [file, [here, there].compact.map(&:first).max, there&.last, here.last]
  end

  def word((count, passed)) = format("%<count>4d %<word>s", count: count, word: passed ? "passed" : "FAILED")

  # Returns what is wrong: files that fail here and are no exception, and exceptions that pass.
  def wrong(rows)
    rows.filter_map do |file, _, _, here|
      reason = GyreConformance::EVENTMACHINE_EXCEPTIONS[file]
      next "#{file} fails: see tmp/conformance/em-here-#{file}.log" if !here && !reason

      "#{file} passes, but is listed as an exception" if here && reason
    end
  end

  def table(rows)
    lines = rows.map do |file, count, there, here|
      "| `#{file}` | #{count} | #{there ? "yes" : "no"} | #{here ? "yes" : "no: #{GyreConformance::EVENTMACHINE_EXCEPTIONS[file]}"} |"
    end
    ["| file | tests | passes with EventMachine | passes with Gyre |", "|---|---|---|---|", *lines, ""].join("\n")
  end

  def update(rows)
    path = File.join(GyreBuild.root, GUIDE)
    text = File.read(path)
    abort "#{GUIDE} has no place for the table" unless text.match?(MARKS)
    File.write(path, text.sub(MARKS) { table(rows) })
  end
end

namespace :conformance do
  desc "Run EventMachine's own tests on EventMachine and on Gyre (TEST=files or sample, UPDATE=1 writes the guide's table)"
  task eventmachine: :compile do
    folder = File.join(GyreBuild.root, "tmp", "conformance")
    mkdir_p folder, verbose: false
    source = GyreConformance::EventMachineSource.new(folder)
    tests = source.tests
    next GyreSuite.skip("the gem eventmachine could not be fetched") unless tests

    original = source.original unless ENV["TEST"] == "sample"
    puts "eventmachine #{source.class::VERSION} cannot be compiled here: Gyre alone is run" unless original || ENV["TEST"] == "sample"
    rows = GyreEventMachineConformance.files(tests).map { |file| GyreEventMachineConformance.compare(tests, file, original, folder) }
    wrong = GyreEventMachineConformance.wrong(rows)
    puts wrong
    GyreEventMachineConformance.update(rows) if ENV["UPDATE"] && original && !ENV["TEST"]
    skipped = rows.count { |file, _, _, here| !here && GyreConformance::EVENTMACHINE_EXCEPTIONS.key?(file) }
    counts = [rows.count { |row| row[3] }, wrong.size, skipped]
    puts "EventMachine's tests: #{rows.size} files, #{"#{rows.count { |row| row[2] }} pass with EventMachine, " if original}#{counts[0]} with Gyre"
    GyreSuite.write_counts(counts)
    abort unless wrong.empty?
  end
end
