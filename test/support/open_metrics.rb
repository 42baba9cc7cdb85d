# frozen_string_literal: true

# A strict reader of the OpenMetrics text format 1.0 (github.com/prometheus/OpenMetrics): what it
# accepts is a Hash of families; whatever breaks a rule that concerns our types raises. No test
# itself.

module GyreTest
  class OpenMetrics
    class Invalid < StandardError; end

    Family = Struct.new(:name, :type, :unit, :help, :samples)
    Sample = Struct.new(:name, :labels, :value)

    NAME = /[a-zA-Z_:][a-zA-Z0-9_:]*/.freeze
    LABEL = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"/.freeze
    NUMBER = /[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?|[+-]Inf|NaN/i.freeze
    SUFFIXES = {
      "counter" => %w[_total _created], "gauge" => [""], "info" => ["_info"],
      "histogram" => %w[_bucket _sum _count _created]
    }.freeze

    def self.parse(text) = new(text).parse

    def initialize(text)
      @text = text
      @families = {}
    end

    def parse
      refuse("it is not UTF-8") unless @text.dup.force_encoding("UTF-8").valid_encoding?
      refuse("it does not end with # EOF and a line end") unless @text.end_with?("# EOF\n")
      lines = @text.lines(chomp: true)
      refuse("there are lines behind # EOF") unless lines.index("# EOF") == lines.size - 1
      lines[0..-2].each_with_index { |line, index| take(line, index + 1) }
      @families.each_value { |family| check(family) }
    end

    private

    def take(line, number)
      @line = number
      case line
      when /\A# TYPE (#{NAME}) (\w+)\z/o then describe($1, :type, $2)
      when /\A# UNIT (#{NAME}) (\w+)\z/o then describe($1, :unit, $2)
      when /\A# HELP (#{NAME}) (.+)\z/o then describe($1, :help, $2)
      when /\A(#{NAME})(?:\{(.*)\})? (#{NUMBER})\z/o then sample($1, $2, $3)
      else refuse("no line of the format: #{line.inspect}")
      end
    end

    def describe(name, what, value)
      family = @families[name] ||= start(name)
      refuse("#{name} is not the present family") unless family.equal?(@present)
      refuse("#{what} of #{name} stands twice, or behind samples") if family[what] || family.samples.any?
      refuse("the type #{value} of #{name} is unknown") if what == :type && !SUFFIXES.key?(value)
      refuse("#{name} does not end with its unit #{value}") if what == :unit && !name.end_with?("_#{value}")
      family[what] = value
    end

    def start(name)
      clash = @families.each_value.find { |family| names(family).any? { |other| other == name } }
      refuse("#{name} is a sample of #{clash.name}") if clash
      @present = Family.new(name, nil, nil, nil, [])
    end

    def names(family) = SUFFIXES.fetch(family.type || "gauge").map { |suffix| "#{family.name}#{suffix}" }

    def sample(name, text, value)
      refuse("#{name} has no family before it, or another one's") unless @present && names(@present).include?(name)
      labels = labels(text)
      refuse("#{name}#{labels} stands twice") if @present.samples.any? { |each| each.name == name && each.labels == labels }
      @present.samples << Sample.new(name, labels, Float(value.sub(/\+?Inf/i, "1e999")))
    end

    def labels(text)
      return {} if text.nil?
      refuse("labels are wrong: #{text.inspect}") unless text.empty? || text.match?(/\A#{LABEL}(?:,#{LABEL})*\z/o)

      pairs = text.scan(LABEL)
      refuse("a label stands twice: #{text}") unless pairs.map(&:first).uniq.size == pairs.size
      pairs.to_h { |name, value| [name, value.gsub(/\\(.)/) { $1 == "n" ? "\n" : $1 }] }
    end

    def check(family)
      @line = family.name
      refuse("no TYPE") unless family.type
      refuse("no HELP") unless family.help
      refuse("no samples") if family.samples.empty?
      refuse("a unit in the name only") if family.name.match?(/_(?:seconds|bytes)\z/) && !family.unit
      refuse("a counter is negative") if family.type == "counter" && family.samples.any? { |sample| sample.value.negative? }
      refuse("an info is not 1") if family.type == "info" && family.samples.any? { |sample| sample.value != 1 }
      check_histogram(family) if family.type == "histogram"
    end

    def check_histogram(family)
      family.samples.group_by { |sample| sample.labels.except("le") }.each do |labels, samples|
        buckets = samples.select { |sample| sample.name.end_with?("_bucket") }
        bounds = buckets.map { |bucket| bucket.labels.fetch("le") }
        refuse("#{labels}: the last bucket is not +Inf") unless bounds.last == "+Inf"
        refuse("#{labels}: a bound is not written as a float") unless bounds[0..-2].all? { |bound| bound.match?(/\A\d+\.\d+(e-?\d+)?\z/) }
        refuse("#{labels}: bounds do not rise") unless bounds[0..-2].map(&:to_f).each_cons(2).all? { |one, other| one < other }
        counts = buckets.map(&:value)
        refuse("#{labels}: buckets fall") unless counts.each_cons(2).all? { |one, other| one <= other }
        count, sum = %w[_count _sum].map { |suffix| samples.find { |sample| sample.name.end_with?(suffix) } }
        refuse("#{labels}: _count and _sum belong together") unless count && sum
        refuse("#{labels}: _count is not the last bucket") unless count.value == counts.last
      end
    end

    def refuse(what)
      raise Invalid, "#{@line}: #{what}"
    end
  end
end
