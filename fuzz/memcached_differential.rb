# frozen_string_literal: true

# The differential fuzzer of memcached's wire: replies and keys changed at random, given to C and to
# the oracle; both must make the same of them. Called by rake fuzz:memcached:
#   ruby -Ilib -Itest fuzz/memcached_differential.rb SECONDS SEED
# It ends with status 1 at the first difference and shows the input.

require "memcached/verdicts"
require "tmpdir"
require_relative "mutation"

WORDS = ["\r\n", "\n", "\r", " ", "HD", "EN", "VA ", "VA 1\r\n", "VA 3 f1 c2\r\nabc\r\n", "NS",
         "MN\r\n", "STAT ", "END\r\n", "SERVER_ERROR ", "CLIENT_ERROR bad\r\n", "ERROR",
         " f", " c1", " t-1", " l", " h1", " O", " k", " b", " W", " X", " Z", "0", "9", "-",
         "18446744073709551615", "4294967296", "1073741825", "\0", "\xff"]
seconds = Integer(ARGV.fetch(0, "30"))
seed = Integer(ARGV.fetch(1) { Random.new_seed % 1_000_000 })
random = Random.new(seed)
seeds = MemcachedVerdicts.inputs.select { |input| input.bytes.bytesize <= 500 }
mutation = Mutation.new(random, seeds.map(&:bytes), WORDS.map(&:b))
deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
checked = 0

Dir.mktmpdir("gyre-fuzz-") do |folder|
  native = MemcachedVerdicts::Native.build(folder, GyreTest::PlainC::PLAIN) or abort "no C compiler: nothing to compare"
  while Process.clock_gettime(Process::CLOCK_MONOTONIC) < deadline
    inputs = Array.new(300) do
      start = seeds.sample(random: random)
      MemcachedVerdicts::Input.new(start.kind, mutation.call(start.bytes))
    end
    native.verdicts(inputs).zip(inputs) do |verdict, input|
      oracle = MemcachedVerdicts::Oracle.verdict(input)
      abort "different with seed #{seed}:\n#{input.inspect}\nC:    #{verdict}\nRuby: #{oracle}" if verdict != oracle
    end
    checked += inputs.size
  end
end
puts "#{checked} inputs, the same in C and Ruby, seed #{seed}"
