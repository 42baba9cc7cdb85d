# frozen_string_literal: true

# Reads the log lines of one or more `gyre log` servers from a Redis Stream, as one consumer of a
# group: each line goes to one of the group's consumers and is acknowledged once printed. Another
# consumer takes over the unacknowledged lines of a dead one.
#
#   ruby examples/log_redis_consumer.rb GROUP CONSUMER [STREAM]      REDIS=host:port or the path of a Unix socket
#
# Start several with the same GROUP to share the work; COUNT=n ends after n lines. Any Redis client
# can do the same with xgroup, xautoclaim, xreadgroup and xack.

require "gyre"
require "socket"

# The part of Redis' wire needed here.
class Redis
  def initialize(address)
    @socket = address.start_with?("/") ? UNIXSocket.new(address) : TCPSocket.new(*address.split(":"))
  end

  def call(*words)
    @socket.write("*#{words.size}\r\n", *words.map { |word| "$#{word.to_s.bytesize}\r\n#{word}\r\n" })
    reply
  end

  private

  def reply
    line = @socket.gets("\r\n", chomp: true) or raise EOFError, "Redis has closed the connection"
    rest = line[1..]
    case line[0]
    when "+" then rest
    when ":" then rest.to_i
    when "-" then raise rest
    when "$" then @socket.read(rest.to_i + 2).byteslice(0, rest.to_i) unless rest == "-1"
    when "*" then Array.new(rest.to_i) { reply } unless rest == "-1"
    end
  end
end

group, consumer, stream = ARGV
abort "usage: log_redis_consumer.rb GROUP CONSUMER [STREAM]" unless consumer
stream ||= "gyre"
left = Integer(ENV.fetch("COUNT", "0")).then { |count| count.zero? ? Float::INFINITY : count }
$stdout.sync = true

Gyre.run do
  redis = Redis.new(ENV.fetch("REDIS", "127.0.0.1:6379"))
  begin
    redis.call("XGROUP", "CREATE", stream, group, "0", "MKSTREAM")
  rescue RuntimeError => error
    raise unless error.message.start_with?("BUSYGROUP") # exists already
  end

  read = lambda do |entries|
    entries.each do |id, fields|
      line = fields.each_slice(2).to_h
      $stdout.write(line.values_at("time", "service", "severity", "message").join("|"), "\n")
      redis.call("XACK", stream, group, id)
      left -= 1
    end
  end

  # Read but unacknowledged lines of this consumer, or of one that has been gone for a minute.
  _, mine = redis.call("XREADGROUP", "GROUP", group, consumer, "STREAMS", stream, "0").first
  read.call(mine)
  start = "0-0"
  loop do
    start, entries, = redis.call("XAUTOCLAIM", stream, group, consumer, 60_000, start, "COUNT", 100)
    read.call(entries)
    break if start == "0-0"
  end

  while left.positive?
    count = [left, 100].min
    _, entries = redis.call("XREADGROUP", "GROUP", group, consumer, "COUNT", count, "BLOCK", 1000, "STREAMS", stream, ">")&.first
    read.call(entries) if entries
  end
end
