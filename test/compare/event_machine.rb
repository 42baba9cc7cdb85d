# frozen_string_literal: true

# Runs random programs (event_machine_stories.rb) on the gem eventmachine and on Gyre's layer, and
# compares their traces. Programs that differ run once more, with longer steps, as a machine may
# have stood still between two of them. Called by `rake compare:event_machine`. Ends with status 1
# if programs differ.
#
#   ruby test/compare/event_machine.rb SEED SECONDS FOLDER…     the load path of the original

require "json"
require "rbconfig"

module EventMachineDifferential
  STORIES = File.expand_path("event_machine_stories.rb", __dir__)
  LIB = File.expand_path("../../lib", __dir__)
  OURS = [LIB, File.join(LIB, "gyre/event_machine/features")].freeze
  # Programs of a run and the seconds between their steps. Then the programs that fork.
  COUNT = 60
  STEP_S = 0.1
  PATIENT_STEP_S = 0.6
  FORKS_COUNT = 6
  FORKS_PATIENT_STEP_S = 2

  # Differences on purpose: the programs leave them out.
  DIFFERENCES = {
    "pause of a datagram socket" => "is ignored there",
    "a timer of 0 s that a timer adds" => "is called in the same turn there, and holds up ticks and input; here in the next",
    "ticks of a deferred callback, or after a tick that raised" => "have another place among the timers of the next turn",
    "an empty file in HTTP's chunks" => "ends twice there",
    "detach of an attached IO" => "closes it there",
    "a file that is streamed to an ended connection" => "succeeds there and fails here",
    "pause of a watched IO, or a connection without callbacks for it" => "aborts the process there",
    "the exit status of a child" => "cannot be asked for there on Ruby 3.0 and later",
    "a forked child of connections" => "shuts down its parent's connections and calls their unbind there; parents without connections fork",
    "lines with a text of a length" => "the original loses the text's state in the middle of a line"
  }.freeze

  module_function

  def run(seed, seconds, original)
    paths = { "EventMachine" => original, "Gyre" => OURS }
    ends_at = now + seconds
    count = forks = different = 0
    until now > ends_at
      different += differing(paths, seed, (count...(count += COUNT)).to_a, PATIENT_STEP_S)
      different += differing(paths, seed, (1..FORKS_COUNT).map { |number| -(forks + number) }, FORKS_PATIENT_STEP_S)
      forks += FORKS_COUNT
    end
    puts "#{count} programs of seed #{seed}, and #{forks} that fork: #{different} differ"
    different.zero?
  end

  # Reports the programs that differ, and returns how many.
  def differing(paths, seed, numbers, patient_step_s)
    differ = compare(paths, seed, STEP_S, numbers)
    differ = compare(paths, seed, patient_step_s, differ.keys) if differ.any?
    differ.each_value { |traces| report(*traces) }
    differ.size
  end

  # Returns the pairs that differ, by number.
  def compare(paths, seed, step_s, numbers)
    runs = paths.transform_values do |folders|
      IO.popen([RbConfig.ruby, "-W0", *folders.map { |folder| "-I#{folder}" }, STORIES, seed.to_s, step_s.to_s, *numbers.map(&:to_s)])
    end
    there, here = runs.map do |name, io|
      stories = io.readlines.to_h { |line| JSON.parse(line).then { |story| [story["number"], story] } }
      io.close
      stories.size == numbers.size ? stories : abort("compare:event_machine: #{name} ended early: seed #{seed}, programs #{numbers.join(" ")}")
    end
    numbers.to_h { |number| [number, [there[number], here[number]]] }.reject { |_, (one, other)| one == other }
  end

  def report(there, here)
    puts "program #{there["number"]} (#{there["kind"]}): #{there["steps"].join(", ")}"
    puts "  errors: #{there["errors"]} there, #{here["errors"]} here" unless there["errors"] == here["errors"]
    (there["traces"].keys | here["traces"].keys).each do |name|
      traces = [there, here].map { |story| story["traces"][name].inspect }
      puts "  #{name}", "    EventMachine #{traces.first}", "    Gyre         #{traces.last}" unless traces.uniq.one?
    end
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

exit EventMachineDifferential.run(Integer(ARGV[0]), Float(ARGV[1]), ARGV.drop(2))
