# frozen_string_literal: true

# DNS messages read by Gyre and by dnsruby, on random and on changed messages. Called by `rake
# fuzz:dnsruby`, which installs the gem. Arguments: SECONDS SEED. A message that both read must have
# the same records.
require "dnsruby"
require "gyre"
require "gyre/dns/message"
require "dns/samples"
require_relative "mutation"

Dnsruby.log.level = Logger::FATAL
WORDS = ["\xc0\x0c", "\xc0\x0e", "\0", "\x3f", "\xff\xff", "\0\0\x29\x10\0\0\0\0\0\0\0", "\0\1\0\1"].map(&:b).freeze

def ours(bytes)
  message = Gyre::DNS::Message.parse(bytes)
  (message.answers + message.authority + message.additional).map { |record| [record.name.downcase, record.type, record.klass, record.ttl] }
rescue Gyre::DNS::FormatError
  nil
end

def theirs(bytes)
  message = Dnsruby::Message.decode(bytes)
  records = [message.answer, message.authority, message.additional].flat_map(&:to_a).reject { |record| record.type.to_i == 41 }
  records.map { |record| [record.name.to_s.downcase.then { |name| name.empty? ? "." : name }, record.type.to_i, record.klass.to_i, record.ttl] }
rescue StandardError
  nil
end

seconds, seed = ARGV.map(&:to_i)
random = Random.new(seed)
seeds = DNSSamples.messages(random, 100)
mutation = Mutation.new(random, seeds, WORDS)
until_s = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
count = both = alone = 0
while Process.clock_gettime(Process::CLOCK_MONOTONIC) < until_s
  bytes = count < seeds.size ? seeds[count] : mutation.call(seeds.sample(random: random)).b
  count += 1
  next if bytes.bytesize < 12 || bytes.getbyte(2).anybits?(2) # dnsruby reads no further in truncated messages

  one, other = ours(bytes), theirs(bytes)
  abort "seed #{seed}: Gyre does not read #{bytes.unpack1("H*")}" if one.nil? && count <= seeds.size
  alone += 1 if one && !other
  next unless one && other

  both += 1
  abort "seed #{seed}: #{bytes.unpack1("H*")}\nGyre:    #{one}\ndnsruby: #{other}" if one != other
end
$stdout.puts "#{count} messages, #{both} read by both, #{alone} by Gyre alone, seed #{seed}"
