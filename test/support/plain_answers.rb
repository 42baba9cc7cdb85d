# frozen_string_literal: true

# A program of test/c that reads inputs from its standard input and answers each with a line:
# started, fed and read. Used by the verdicts of the HTTP/1 parser and of the log's ingest, which
# say what an input looks like there, and what a line means.

require_relative "plain_c"

module GyreTest
  # A subclass has PROGRAM, a name of PlainC, and frame(input) and read(line).
  class PlainAnswers
    def self.build(folder, flags)
      program = PlainC.build(self::PROGRAM, folder, flags)
      program && new(program)
    end

    # Returns the path of the program.
    attr_reader :program

    def initialize(program)
      @program = program
    end

    # Returns a verdict for each.
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
