# frozen_string_literal: true

# Tables of settings. Their rows define flags, words of configuration files, keywords, checks,
# messages and docs/configuration.md. Used by gyre serve, gyre log, gyre dns, TLS and memcached.

require "did_you_mean"
require "gyre/ractor"

module Gyre
  # A table has rows in groups. A row whose type is a table itself is a section.
  #
  #   table = Gyre::Settings.new({ "Where to listen" => [Gyre::Settings.row(:port, :port, "the port", default: 80)] })
  #   table.complete({})            # => { port: 80 }
  #   table.read({ "port" => "x" }) # ArgumentError: port: must be a port, 0 to 65535, not "x"
  class Settings
    include Enumerable

    # Raised with all faults. Each has a path like logs[2].levels (nil: the whole table) and a text.
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

    # Gathers faults to report them together.
    class Faults
      attr_reader :all

      def initialize
        @all = []
      end

      def add(path, text) = @all << [path, text]

      # Calls the block and records its ArgumentError as a fault at this path.
      def at(path)
        yield
      rescue Invalid => error
        error.faults.each { |inner, text| add(join(path, inner), text) }
        nil
      rescue ArgumentError => error
        add(path, error.message)
        nil
      end

      # Returns the values, or raises Invalid if there are faults.
      def ensure_none(values) = @all.empty? ? values : raise(Invalid.new(@all, values))

      private

      def join(path, inner) = inner.nil? || inner.start_with?("[") ? "#{path}#{inner}" : [path, inner].compact.join(".")
    end

    attr_reader :groups, :foreign

    def self.row(name, type, meaning, **rest) = Row.new(name: name, type: type, meaning: meaning, **rest)

    # Returns "did you mean …?" with the word that is nearest to the given word, or nil.
    def self.nearest(word, words)
      return unless word.valid_encoding?

      near = DidYouMean::SpellChecker.new(dictionary: words).correct(word).first
      "did you mean #{near}?" if near
    end

    def self.list(words) = words.size > 1 ? "#{words[0..-2].join(", ")} or #{words.last}" : words.join

    # Returns a value's text for messages: short, and without passwords of addresses.
    def self.shown(value)
      return value.is_a?(Hash) ? "keys with values" : "a list" if value.is_a?(Enumerable)

      value.inspect.gsub(%r{(://)[^/@\s"]*@}, "\\1…@").then { |text| text.size > 80 ? "#{text[0, 79]}…" : text }
    end

    # `groups`: rows by their headings in --help; rows under nil have no flags. `foreign`: obsolete
    # words and other programs' words, with advice. `what`: noun for a row in messages. The block
    # checks all values together; it gets nil for an invalid value, and Faults to add to.
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

    # Returns checked values by name; ignores nil, except for timeouts. Raises Invalid; if `faults`
    # is given, adds to it instead, and an invalid value is nil.
    def read(given, faults = nil)
      raise ArgumentError, "must be keys with values" unless given.is_a?(Hash)
      return read(given, faults = Faults.new).then { |values| faults.ensure_none(values) } unless faults

      values = given.each_with_object({}) { |(name, value), found| faults.at(name.to_s) { read_one(name, value, found) } }
      missing = @needs.reject { |name| values.key?(name) }
      faults.add(nil, "needs #{missing.join(" and ")}") if missing.any?
      @rule&.call(values, faults)
      values
    end

    # Returns the given values, completed by defaults.
    def complete(given) = defaults.merge(read(given))

    def check(name, value) = read({ name => value })[self[name].name]

    private

    def read_one(name, value, found)
      row = fetch(name)
      return if value.nil? && !row.none?(value)
      raise ArgumentError, "is the same as another key here; keep one of the two" if found.key?(row.name)

      found[row.name] = nil # stays nil if the check raises
      found[row.name] = row.check(value)
    rescue Invalid => error
      found[row.name] = error.values
      raise
    end

    def hint(word) = @foreign[word] || Settings.nearest(word, words) || "known: #{words.join(", ")}"
  end
end

require "gyre/settings/row"
