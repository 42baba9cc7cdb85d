# frozen_string_literal: true

# memcached's wire in C without Ruby: its own checks, then replies and keys against the oracle,
# plain and with sanitizers, in every way in which bytes may arrive, at the edge of a guarded page.
require "test_helper"
require "tmpdir"
require "memcached/verdicts"

class MemcachedWireTest < Minitest::Test
  def test_plain = check_built(GyreTest::PlainC::PLAIN)

  def test_sanitized = check_built(GyreTest::PlainC::SANITIZED)

  def check_built(flags)
    Dir.mktmpdir("gyre-memcached-") do |folder|
      native = MemcachedVerdicts::Native.build(folder, flags) or skip "no C compiler that can do it"
      own = run_program({ "LD_PRELOAD" => nil }, native.program)
      assert own.status.success?, "#{own.out}#{own.err}"
      check(native)
    end
  end

  # The oracle's commands read what the oracle expects of C.
  def test_the_lines_that_are_expected_are_commands
    MemcachedVerdicts::KEYS.each do |key|
      verdict = MemcachedVerdicts::Oracle.verdict(MemcachedVerdicts::Input.new("k", key.b))
      next if verdict == "refused"

      command = MemcachedOracle::Commands.first([verdict.split.first].pack("H*"))
      assert_equal ["md", key.b], [command.name, command.key]
    end
  end

  private

  def check(native)
    inputs = MemcachedVerdicts.inputs
    inputs.zip(native.verdicts(inputs)) do |input, verdict|
      assert_equal MemcachedVerdicts::Oracle.verdict(input), verdict, input.inspect
    end
  end
end
