# frozen_string_literal: true

# Output::FileOutput with kill -9 at random moments: a program commits numbered lines of some
# clients, with lines of others between, rotates, compresses, and prints what is durable; its
# successor goes on after what was acknowledged, as clients do. In the end each acknowledged line is
# there once, in order.

require "test_helper"
require "support/engines"
require "tmpdir"
require "zlib"

GyreTest::Engines.test_case("LogOutputCrashTest", backends: GyreTest::Engines::NATIVE.first(1)) do
  const_set(:KILLS, 12)
  const_set(:PROGRAM, <<~'RUBY')
    require "gyre"
    require "gyre/log/output"
    path, seed = ARGV
    random = Random.new(Integer(seed))
    output = Gyre::Log::Output.open({ logfile: path, rotate: { size: 3000, keep: 1000, compress: "gzip" } }, report: ->(said) { STDERR.puts(said) })
    ids = %w[a b c].map { |digit| digit * 32 }
    # Clients send again what was not acknowledged; the server leaves out what is stored.
    last = ids.to_h { |id| [id, output.stored_by(id)] }
    STDOUT.sync = true
    STDOUT.puts("begin #{last.values.join(" ")}")
    Gyre.run do
      loop do
        clients = {}
        lines = Array.new(1 + random.rand(8)) do
          id = ids.sample(random: random)
          clients[id] = last[id] += 1
          "#{id[0]} #{last[id]} #{"x" * random.rand(60)}\n"
        end
        output.write("other\n" * random.rand(3))
        output.write(lines.join, clients)
        output.sync
        STDOUT.puts("ack #{clients.map { |id, seq| "#{id[0]}#{seq}" }.join(" ")}")
      end
    end
  RUBY

  def self.time_limit_s = 120

  def test_killed_at_any_moment_nothing_acknowledged_is_lost_or_twice
    random = Random.new(Integer(ENV.fetch("GYRE_SEED", "5")))
    Dir.mktmpdir do |folder|
      path = File.join(folder, "a.log")
      acknowledged = Hash.new(0)
      self.class::KILLS.times do |round|
        run_until_killed(path, round, 0.002 + (random.rand * 0.05), acknowledged)
      end
      stored = contents(folder)
      %w[a b c].each do |client|
        numbers = stored.filter_map { |line| line[/\A#{client} (\d+) x*\n\z/, 1]&.to_i }
        assert_operator numbers.size, :>=, acknowledged[client]
        assert_equal (1..numbers.size).to_a, numbers, "client #{client}: each once and in order"
      end
      assert_operator acknowledged.values.sum, :>=, self.class::KILLS / 2
    end
  end

  private

  def run_until_killed(path, round, moment_s, acknowledged)
    command = ruby_command("-e", self.class::PROGRAM, path, round.to_s, env: { "GYRE_BACKEND" => backend })
    with_subprocess(*command) do |pid, out, err|
      words = out.gets or flunk("it did not start: #{err.read}")
      begun = words.split.drop(1).map(&:to_i)
      %w[a b c].zip(begun) { |client, last| assert_operator last, :>=, acknowledged[client], "what was acknowledged is known" }
      killer = kill_after(pid, moment_s) if round.odd?
      out.each_line do |line|
        next unless line.end_with?("\n")

        killer ||= kill_after(pid, moment_s)
        line.split.drop(1).each { |word| acknowledged[word[0]] = word[1..].to_i }
      end
      killer.join
    end
  end

  def kill_after(pid, moment_s)
    Thread.new { sleep(moment_s) && Process.kill(:KILL, pid) }
  end

  # Of all parts, the oldest first.
  def contents(folder)
    parts = Dir.children(folder).grep(/\Aa\.log(?:\.\d+(?:\.gz)?)?\z/).group_by { |name| name[/\.log\.(\d+)/, 1].to_i }
    parts.sort.reverse.flat_map do |_, names|
      path = File.join(folder, names.min_by(&:size)) # a plain one beside its packed one is the same
      (path.end_with?(".gz") ? Zlib::GzipReader.open(path, &:read) : File.binread(path)).lines
    end
  end
end
