# frozen_string_literal: true

# A program of test/c that reads inputs from its standard input and answers each with a line:
# started, fed and read. Used by the verdicts of the HTTP/1 parser and of the log's ingest, which
# say what an input looks like there, and what a line means.

require_relative "plain_c"

module GyreTest
  # A subclass has PROGRAM, a name of PlainC, and frame(input) and read(line).
  class PlainAnswers
    # @param folder [String] where the program goes
    # @param flags [Array<String>] as PlainC.build, which also has when it is nil
    # @return [PlainAnswers, nil]
    def self.build(folder, flags)
      program = PlainC.build(self::PROGRAM, folder, flags)
      program && new(program)
    end

    # @return [String] the path of the program
    attr_reader :program

    def initialize(program)
      @program = program
    end

    # @param inputs [Array]
    # @return [Array<Hash>] a verdict for each
    # @raise [RuntimeError] when the program ended before its time, with the input that it was at
    def verdicts(inputs)
      IO.popen([{ "TZ" => "UTC" }, @program, "frames"], "r+b") do |io|
        writer = Thread.new { inputs.each { |input| io.write(frame(input)) } && io.close_write }
        writer.report_on_exception = false
        verdicts = io.each_line.map { |line| read(line) }
        writer.value if verdicts.size == inputs.size
        raise "#{@program} ended at #{inputs[verdicts.size].inspect}" if verdicts.size < inputs.size

        verdicts
      end
    end
  end
end
