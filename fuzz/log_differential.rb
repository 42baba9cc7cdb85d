# frozen_string_literal: true

# The differential fuzzer of the log's ingest: cases changed at random, given to the C files without
# Ruby, to the native ingest and to the oracle in Ruby; messages, verdict, counts and every byte in
# every sink must be equal. Called by rake fuzz:log:
#   ruby -Ilib -Itest fuzz/log_differential.rb SECONDS SEED
# It ends with status 1 at the first difference and shows the input.

require_relative "../test/log/cases"
require_relative "mutation"

WORDS = ["\n", "\r", "\0", " ", ":", "|", "\\", "\"", "]", "[", "<", ">", "-", "1", "0", "9", "T", "Z", "+", ".", "\t", "\x7f", "\x1b", "\xff",
         "\xc3", "\xe2\x82", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xed\xa0\x80", "<14>", "<34>1 ", "<191>", "<192>", "9 <14>a: b", "17 ", "a: ",
         "a[1]: ", "- - - ", "[a b=\"", "\"]", "Oct 11 22:14:15 ", "2026-11-21T19:20:00.5+01:00 ", "1969-12-31T23:59:59Z", "\xEF\xBB\xBF",
         "00110011:::", "00190019:web:info:a", "8191", "quiet", "warn", "web", "\0\0\0\x12", "\xff\xff\xff\xff"].map { |word| word.b.freeze }.freeze

seconds = Integer(ARGV.fetch(0, "30"))
seed = Integer(ARGV.fetch(1) { Random.new_seed % 1_000_000 })
random = Random.new(seed)
seeds = LogCases::ALL.select { |input| input.bytes.bytesize <= 2000 }
mutation = Mutation.new(random, seeds.map(&:bytes), WORDS)
deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
checked = 0

# A record's checksum is made right, else hardly any would get past it.
def seal(bytes)
  position = 0
  while bytes.bytesize - position >= 8
    length = bytes.unpack1("N", offset: position)
    return bytes if length > bytes.bytesize - position - 8

    bytes[position + 4, 4] = [Zlib.crc32(bytes.byteslice(position + 8, length))].pack("N")
    position += 8 + length
  end
  bytes
end

# Frames' lengths likewise.
def measure(bytes)
  bytes.sub(/\A\d{8}(?=:)/n) { format("%04d%04d", [bytes.bytesize, 8191].min, [bytes.bytesize, 8191].min) }
end

Dir.mktmpdir("gyre-fuzz-") do |folder|
  plain = LogVerdicts::Plain.build(folder, GyreTest::PlainC::PLAIN) or abort "no C compiler: nothing to compare"
  while Process.clock_gettime(Process::CLOCK_MONOTONIC) < deadline
    inputs = Array.new(100) do
      input = seeds.sample(random: random).dup
      input.bytes = mutation.call(input.bytes)
      input.bytes = input.kind == :records ? seal(input.bytes) : measure(input.bytes) if random.rand(3).positive?
      input.limit = [20, 100].sample(random: random) if random.rand(5).zero?
      input
    end
    plain.verdicts(inputs).zip(inputs) do |verdict, input|
      oracle = LogVerdicts.verdict(LogOracle::Ingest, input)
      native = LogVerdicts.verdict(Gyre::Log::Ingest, input)
      split = random.rand(input.bytes.bytesize + 1)
      parts = LogVerdicts.verdict(LogOracle::Ingest, input, first: split, step: 1 + random.rand(input.bytes.bytesize + 1))
      next if verdict == oracle && native == oracle && parts == oracle

      abort "different with seed #{seed}:\n#{input.inspect}\nC:      #{verdict}\nnative: #{native}\nRuby:   #{oracle}\nparts:  #{parts}"
    end
    checked += inputs.size
  end
end
puts "#{checked} inputs, the same in C and Ruby, seed #{seed}"
