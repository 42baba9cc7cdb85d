# frozen_string_literal: true

# The implementations of the log's ingest give the same for every case of test/log/cases.rb, however
# its bytes arrive: the oracle in Ruby, the extension's, and the C files without Ruby in a program
# that is compiled for this test, plain and with sanitizers, against a guard page.
require "test_helper"
require_relative "../log/cases"
require_relative "../log/ingests"

class LogIngestCasesTest < Minitest::Test
  include LogIngests::Tools

  class << self
    def plain
      @plain ||= LogVerdicts::Plain.build(folder("plain"), GyreTest::PlainC::PLAIN)
    end

    def sanitized
      @sanitized ||= LogVerdicts::Plain.build(folder("sanitized"), GyreTest::PlainC::SANITIZED)
    end

    private

    def folder(name)
      @folder ||= Dir.mktmpdir("gyre-test-").tap { |path| Minitest.after_run { FileUtils.rm_rf(path) } }
      File.join(@folder, name).tap { |path| FileUtils.mkdir_p(path) }
    end
  end

  def test_the_oracle_gives_the_same_however_the_bytes_arrive = check_ways_of_arrival(LogOracle::Ingest)

  def test_the_extension_gives_the_same_however_the_bytes_arrive = check_ways_of_arrival(Gyre::Log::Ingest)

  def check_ways_of_arrival(ingest_class)
    LogCases::ALL.each do |input|
      whole = LogVerdicts.verdict(ingest_class, input)
      ways(input.bytes.bytesize).each do |first, step|
        assert_equal whole, LogVerdicts.verdict(ingest_class, input, first: first, step: step), "#{input.inspect}: #{first}, then #{step}"
      end
    end
  end

  def test_the_extension_gives_what_the_oracle_gives
    LogCases::ALL.each { |input| assert_equal expected(input), LogVerdicts.verdict(Gyre::Log::Ingest, input), input.inspect }
  end

  def test_the_c_files_alone_give_the_same
    compare(self.class.plain)
  end

  def test_the_c_files_touch_only_what_is_theirs
    compare(self.class.sanitized)
  end

  def test_what_only_c_has
    [self.class.plain, self.class.sanitized].each do |plain|
      skip "this machine cannot build the program" unless plain
      words = IO.popen(plain.program, err: %i[child out], &:read)
      assert_predicate $?, :success?, words
    end
  end

  private

  # Byte by byte, and in two parts: each split of short input, some of long.
  def ways(length)
    [[1, 1]] + (1...length).step([length / 12, 1].max).map { |first| [first, length] }
  end

  def expected(input)
    LogVerdicts.verdict(LogOracle::Ingest, input)
  end

  def compare(plain)
    skip "this machine cannot build the program" unless plain
    plain.verdicts(LogCases::ALL).zip(LogCases::ALL) { |verdict, input| assert_equal expected(input), verdict, input.inspect }
  end
end
