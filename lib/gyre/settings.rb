# frozen_string_literal: true

# Tables of settings: flags, configuration files, keywords, checks, messages and
# docs/configuration.md from the same rows. For gyre serve, gyre log, TLS and memcached.

require "did_you_mean"

module Gyre
  # Rows in groups; a row whose type is a table is a section.
  #
  #   table = Gyre::Settings.new({ "Where to listen" => [Gyre::Settings.row(:port, :port, "the port", default: 80)] })
  #   table.complete({})            # => { port: 80 }
  #   table.read({ "port" => "x" }) # ArgumentError: port: must be a port, 0 to 65535, not "x"
  class Settings
    include Enumerable

    # All faults: a path like logs[2].levels (nil: the whole) and text for each.
    class Invalid < ArgumentError
      attr_reader :faults
      # The valid values.
      attr_reader :values

      def initialize(faults, values)
        @faults = faults
        @values = values
        super(faults.map { |path, text| [path, text].compact.join(": ") }.join("; "))
      end
    end

    # Gathers faults to report at once.
    class Faults
      attr_reader :all

      def initialize
        @all = []
      end

      def add(path, text) = @all << [path, text]

      # Records the block's ArgumentError as a fault below this path.
      def at(path)
        yield
      rescue Invalid => error
        error.faults.each { |inner, text| add(join(path, inner), text) }
        nil
      rescue ArgumentError => error
        add(path, error.message)
        nil
      end

      # Returns the values, or raises the faults.
      def ensure_none(values) = @all.empty? ? values : raise(Invalid.new(@all, values))

      private

      def join(path, inner) = inner.nil? || inner.start_with?("[") ? "#{path}#{inner}" : [path, inner].compact.join(".")
    end

    attr_reader :groups, :foreign

    def self.row(name, type, meaning, **rest) = Row.new(name: name, type: type, meaning: meaning, **rest)

    # Returns the nearest words, as a question.
    def self.nearest(word, words)
      return unless word.valid_encoding?

      near = DidYouMean::SpellChecker.new(dictionary: words).correct(word).first
      "did you mean #{near}?" if near
    end

    def self.list(words) = words.size > 1 ? "#{words[0..-2].join(", ")} or #{words.last}" : words.join

    # Hides addresses' passwords and shortens, for messages.
    def self.shown(value)
      return value.is_a?(Hash) ? "keys with values" : "a list" if value.is_a?(Enumerable)

      value.inspect.gsub(%r{(://)[^/@\s"]*@}, "\\1…@").then { |text| text.size > 80 ? "#{text[0, 79]}…" : text }
    end

    # `groups`: rows by --help's headings; below nil without flags. `foreign`: obsolete and other
    # programs' words with advice. `what`: noun for a row. The block checks the values together,
    # with nil for wrong ones, and gets Faults.
    def initialize(groups, what: "setting", foreign: {}, needs: [], &rule)
      @groups = groups.transform_values(&:freeze).freeze
      @what = what
      @foreign = foreign.transform_keys(&:to_s).freeze
      @needs = needs
      @rule = rule
      @by_name = flat_map { |row| [row.name, row.word, *row.also].map { |name| [name.to_s, row] } }.to_h
      Ractor.make_shareable(self)
    end

    def each(&block) = @groups.each_value { |rows| rows.each(&block) }

    def [](name) = @by_name[name.to_s]

    def inspect = "#<#{self.class} #{words.join(" ")}>"

    def names = map(&:name)

    def words = map(&:word)

    def defaults = to_h { |row| [row.name, row.default] }

    def fetch(name) = self[name] || raise(ArgumentError, "unknown #{@what}; #{hint(name.to_s)}")

    # Returns checked values by name, without nil. Raises faults as Invalid, or adds them to given
    # ones.
    def read(given, faults = nil)
      raise ArgumentError, "must be keys with values" unless given.is_a?(Hash)
      return read(given, faults = Faults.new).then { |values| faults.ensure_none(values) } unless faults

      values = given.each_with_object({}) { |(name, value), found| faults.at(name.to_s) { read_one(name, value, found) } }
      missing = @needs.reject { |name| values.key?(name) }
      faults.add(nil, "needs #{missing.join(" and ")}") if missing.any?
      @rule&.call(values, faults)
      values
    end

    # With defaults.
    def complete(given) = defaults.merge(read(given))

    def check(name, value) = read({ name => value })[self[name].name]

    private

    def read_one(name, value, found)
      row = fetch(name)
      return if value.nil? && !row.none?(value)
      raise ArgumentError, "is the same as another key here; keep one of the two" if found.key?(row.name)

      found[row.name] = nil # stays where the value is wrong
      found[row.name] = row.check(value)
    rescue Invalid => error
      found[row.name] = error.values
      raise
    end

    def hint(word) = @foreign[word] || Settings.nearest(word, words) || "known: #{words.join(", ")}"
  end
end

require "gyre/settings/row"
