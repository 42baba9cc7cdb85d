# frozen_string_literal: true

# The differential fuzzer of the HTTP/1 parsers: cases changed at random, given to the C parser and
# to its Ruby twin; verdict, the byte at which it stood, status, reason and every value must be
# equal. Called by rake fuzz:http1:
#   ruby -Ilib -Itest fuzz/http1_differential.rb SECONDS SEED
# It ends with status 1 at the first difference and shows the input.

require_relative "../test/http/cases"
require_relative "mutation"

seconds = Integer(ARGV.fetch(0, "30"))
seed = Integer(ARGV.fetch(1) { Random.new_seed % 1_000_000 })
random = Random.new(seed)
seeds = HTTPCases::ALL.map(&:input).select { |input| input.bytes.bytesize <= 2000 }
mutation = Mutation.new(random, seeds.map(&:bytes))
limits = [HTTPVerdicts::USUAL_LIMITS, HTTPVerdicts::USUAL_LIMITS, [24, 100, 3], [64, 30, 2]]
deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
checked = 0

Dir.mktmpdir("gyre-fuzz-") do |folder|
  native = HTTPVerdicts::Native.build(folder, GyreTest::PlainC::PLAIN) or abort "no C compiler: nothing to compare"
  while Process.clock_gettime(Process::CLOCK_MONOTONIC) < deadline
    inputs = Array.new(300) do
      start = seeds.sample(random: random)
      HTTPVerdicts::Input.new(start.kind, mutation.call(start.bytes),
        random.rand(4).zero? ? limits.sample(random: random) : start.limits)
    end
    native.verdicts(inputs).zip(inputs) do |verdict, input|
      twin = HTTPVerdicts::Portable.verdict(input, splits: random.rand(20).zero?)
      next if verdict == twin

      abort "different with seed #{seed}:\n#{input.inspect}\nC:    #{verdict}\nRuby: #{twin}"
    end
    checked += inputs.size
  end
end
puts "#{checked} inputs, the same in C and Ruby, seed #{seed}"
