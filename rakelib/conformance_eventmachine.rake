# frozen_string_literal: true

# EventMachine's own tests, unchanged but for their limit of 0.25 s, of the gem and of its master
# branch, on EventMachine and on Gyre under its name, each file in a process of its own. The tests
# listen on fixed ports, so one file runs after another. TEST=files chooses some, TEST=sample the
# quick ones (on Gyre alone); UPDATE=1 writes the guide's table.
require "fileutils"
require "rbconfig"
require_relative "../test/conformance/eventmachine/exceptions"
require_relative "../test/conformance/eventmachine/source"

# How the files are run, and what is printed about it.
module GyreEventMachineConformance
  FILE_LIMIT_S = 60
  GUIDE = "docs/event_machine.md"
  PATIENCE = File.expand_path("../test/conformance/eventmachine/patience", __dir__)
  # For a file that connects to 192.0.2.0, which has no host: here packets to it get lost, where
  # other networks may refuse them.
  NAMESPACES = { "test_unbind_reason.rb" => ["unshare", *("--map-root-user" unless Process.uid.zero?), "--net", "sh", "-c",
                                             "ip link set lo up; ip route add 192.0.2.0/24 dev lo; exec \"$@\"", "sh"] }.freeze

  module_function

  def files(tests)
    all = Dir[File.join(tests, "test_*.rb")].map { |path| File.basename(path) }.sort
    chosen = ENV["TEST"] == "sample" ? GyreConformance::EVENTMACHINE_SAMPLE : ENV["TEST"]&.split(/[,\s]+/) || all
    abort "no such file: #{(chosen - all).join(", ")}" if (chosen - all).any?
    chosen
  end

  # Returns the tests that ran, and whether all passed.
  def run(source, file, paths, log)
    passed = system(environment(source), *NAMESPACES[file], "timeout", "--kill-after=5", FILE_LIMIT_S.to_s, RbConfig.ruby, "-W0",
      *paths.map { |path| "-I#{path}" }, "-I.", "-r#{PATIENCE}", file, chdir: source.tests, in: File::NULL, out: log, err: %i[child out])
    [File.read(log, encoding: "UTF-8").scrub[/^(\d+) tests/, 1].to_i, passed ? true : false]
  end

  # test-unit comes with Ruby.
  def environment(source) = GyreSuite.unbundled.merge("GEM_HOME" => source.gems, "GEM_PATH" => nil)

  def ours = [File.join(GyreBuild.root, "lib"), File.join(GyreBuild.root, "lib/gyre/event_machine/features")]

  # Returns a row: file, tests, passes there, passes here.
  def compare(source, file, original, folder)
    there = original && run(source, file, original, File.join(folder, "em-#{source.name}-there-#{file}.log"))
    here = run(source, file, ours, File.join(folder, "em-#{source.name}-here-#{file}.log"))
    puts format("%-34<file>s %<there>s %<here>s", file: file, there: there ? word(there) : "-", here: word(here))
    [file, [here, there].compact.map(&:first).max, there&.last, here.last]
  end

  def word((count, passed)) = format("%<count>4d %<word>s", count: count, word: passed ? "passed" : "FAILED")

  # Returns what is wrong: files that fail here and are no exception, and exceptions that pass.
  def wrong(source, rows)
    rows.filter_map do |file, _, _, here|
      reason = source.exceptions[file]
      next "#{file} fails: see tmp/conformance/em-#{source.name}-here-#{file}.log" if !here && !reason

      "#{file} passes, but is listed as an exception" if here && reason
    end
  end

  def table(source, rows)
    lines = rows.map do |file, count, there, here|
      "| `#{file}` | #{count} | #{there ? "yes" : "no"} | #{here ? "yes" : "no: #{source.exceptions[file]}"} |"
    end
    ["| file | tests | passes with EventMachine | passes with Gyre |", "|---|---|---|---|", *lines, ""].join("\n")
  end

  def update(source, rows)
    path = File.join(GyreBuild.root, GUIDE)
    text = File.read(path)
    marks = /(?<=<!-- conformance:eventmachine #{source.name} -->\n).*?(?=<!-- end -->)/m
    abort "#{GUIDE} has no place for the table" unless text.match?(marks)
    File.write(path, text.sub(marks) { table(source, rows) })
  end

  def report(kind)
    folder = File.join(GyreBuild.root, "tmp", "conformance")
    FileUtils.mkdir_p(folder)
    source = kind.new(folder)
    return GyreSuite.skip("EventMachine #{source.name} could not be fetched") unless source.tests

    original = source.original unless ENV["TEST"] == "sample"
    puts "EventMachine #{source.name} cannot be compiled here: Gyre alone is run" unless original || ENV["TEST"] == "sample"
    rows = files(source.tests).map { |file| compare(source, file, original, folder) }
    update(source, rows) if ENV["UPDATE"] && original && !ENV["TEST"]
    judge(source, rows, original)
  end

  def judge(source, rows, original)
    wrong = wrong(source, rows)
    puts wrong
    counts = [rows.count { |row| row[3] }, wrong.size, rows.count { |file, _, _, here| !here && source.exceptions.key?(file) }]
    there = "#{rows.count { |row| row[2] }} pass with EventMachine, " if original
    puts "EventMachine's tests, #{source.name}: #{rows.size} files, #{there}#{counts[0]} with Gyre"
    GyreSuite.write_counts(counts)
    abort unless wrong.empty?
  end
end

namespace :conformance do
  desc "Run EventMachine's own tests on EventMachine and on Gyre (TEST=files or sample, UPDATE=1 writes the guide's table)"
  task(eventmachine: :compile) { GyreEventMachineConformance.report(GyreConformance::EventMachineSource) }

  desc "Run the tests of EventMachine's master branch likewise (GYRE_EVENT_MACHINE_SOURCES=a folder of clones)"
  task(eventmachine_master: :compile) { GyreEventMachineConformance.report(GyreConformance::EventMachineMaster) }
end
