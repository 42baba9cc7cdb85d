# frozen_string_literal: true

# What a value of the configuration may be: each method takes a Gyre::Log::Configuration::Node (or, from the command line,
# a value in one), answers the value as the server wants it, and raises ArgumentError with what is expected instead.
# Analogger's forms count as they do there. No message holds a secret, and nothing is opened.

require "gyre/net/endpoint"
require "gyre/log/output/access"
require "gyre/log/output/remote"
require "gyre/net/units"

module Gyre
  module Log
    class Configuration
      # The checks, by the names that Keys uses.
      module Checks
        DEFAULT_PORT = 6766

        module_function

        # @return [Integer]
        def port(node)
          number = node.value.is_a?(String) && node.value.match?(/\A\d+\z/) ? node.value.to_i : node.value
          number.is_a?(Integer) && number.between?(0, 65_535) ? number : expect("a port, 1 to 65535 (0 takes a free one)", node)
        end

        # @return [String]
        def text(node)
          node.kind == :scalar && node.value.is_a?(String) && !node.value.empty? ? node.value : expect("text", node)
        end

        # @return [String]
        def name(node)
          node.kind == :scalar && !node.value.nil? && node.value != "" ? node.value.to_s : expect("a name", node)
        end

        # Numbers and the like are what Analogger makes of them: their text, as YAML reads them.
        # @return [String, nil] nil for none
        def secret(node)
          raise ArgumentError, "must be text" unless node.kind == :scalar

          node.value.to_s.empty? ? nil : node.value.to_s
        end

        # @return [Boolean]
        def flag(node)
          [true, false].include?(node.value) ? node.value : expect("true or false", node)
        end

        # @return [Integer, Float] 0 or more
        def seconds(node)
          value = Units.number(node.value)
          value.is_a?(Numeric) && value.real? && value >= 0 && value.finite? ? value : expect("a number of seconds, 0 or more", node)
        end

        # @return [Integer]
        def bytes(node)
          size = Units.bytes(node.value) if node.kind == :scalar
          size&.positive? ? size : expect("a number of bytes like 500, 64k or 10M", node)
        end

        # @return [Integer]
        def count(node)
          value = Units.number(node.value)
          value.is_a?(Integer) && value.positive? ? value : expect("a whole number, 1 or more", node)
        end

        # @return [Integer, Float] seconds
        def period(node)
          seconds = Units.period(node.value) if node.kind == :scalar
          seconds || expect("minute, hour, day, week, some of them (2 days) or a number of seconds", node)
        end

        # A list, a name, names with commas between them, or a mapping whose keys are meant, as Analogger has it.
        # @return [Array<String>]
        def levels(node)
          names = case node.kind
                  when :list then node.value.map { |each| name(each) }
                  when :map  then node.value.keys.map { |each| each.delete_prefix(":") }
                  else node.value.to_s.split(",")
                  end
          names = names.map(&:strip).reject(&:empty?).uniq
          return names unless names.empty? && !node.list?

          expect("severities, as in: debug,info,warn", node)
        end

        # @return [Array<String>]
        def services(node)
          list = node.list? ? node.value : [node]
          names = list.map { |each| name(each) }
          names.empty? ? expect("the name of a service, or a list of names", node) : names.uniq
        rescue ArgumentError
          expect("the name of a service, or a list of names", node)
        end

        # @return [String] STDOUT and STDERR in capitals, whatever they were written in
        def destination(node)
          path = node.kind == :scalar && node.value.is_a?(String) ? node.value : ""
          expect("a path, STDOUT or STDERR", node) if path.empty?
          return "STDOUT" if path == "-"
          return path.upcase if path.match?(/\ASTD(?:OUT|ERR)\z/i)

          Output::Remote.check(path)
          path
        end

        # @return [Boolean, Symbol] true, false or :optional
        def verification(node)
          return :optional if node.value == "optional"

          [true, false].include?(node.value) ? node.value : expect("true, false or optional", node)
        end

        # @return [Array<String>] addresses as Gyre::Endpoint reads them
        def addresses(node, transports: %i[tcp unix])
          list = node.list? ? node.value : [node]
          expect("an address, or a list of addresses", node) if list.empty? || list.any? { |each| each.kind != :scalar || each.value.nil? }
          list.each { |each| Endpoint.parse(each.value, host: "127.0.0.1", port: DEFAULT_PORT, transports: transports) }
          list.map { |each| each.value.to_s }
        end

        # @return [Array<String>] also such as take datagrams
        def sources(node)
          addresses(node, transports: %i[tcp unix udp unixgram])
        end

        # @return [Array, Hash] as it is
        def options(node)
          case node.kind
          when :list then node.plain
          when :map  then node.plain.transform_keys(&:to_sym)
          else [node.value]
          end
        end

        # @return [String]
        def choice(node, names)
          value = node.kind == :scalar ? node.value.to_s.downcase : nil
          names.include?(value) ? value : expect(names.join(" or "), node)
        end

        # In octal, with or without quotes. YAML reads 0640 as octal by itself, and 640 not.
        # @return [Integer]
        def mode(node)
          text = node.text.to_s
          return text.to_i(8) if node.kind == :scalar && text.match?(/\A0?[0-7]{3}\z/) && text.to_i(8).allbits?(0o600)

          expect("a file mode in octal that lets the server write, such as 0640", node)
        end

        # @return [String]
        def owner(node)
          name = node.kind == :scalar ? node.text.to_s : expect("user, user:group or :group", node)
          Output::Access.owner(name)
          name
        end

        # @return [Symbol, nil]
        def compression(node)
          return nil if node.value == false

          return :gzip if node.value == true

          choice(node, %w[gzip none]).then { |name| name == "none" ? nil : name.to_sym }
        end

        # @param what [Symbol] :file or :folder
        # @param path [String] addresses and standard streams need neither
        # @return [void]
        # @raise [ArgumentError]
        def needed(what, path)
          return if path.match?(%r{\ASTD(?:OUT|ERR)\z|\A[a-z+]+://})

          path = File.dirname(path) if what == :folder
          return if what == :folder ? File.directory?(path) : File.exist?(path)

          raise ArgumentError, what == :folder ? "the folder #{path} is not there: make it first" : "there is no file #{path}"
        end

        # @param path [String] of a file that is written to
        # @return [void]
        # @raise [ArgumentError]
        def writable(path)
          return if path.match?(%r{\ASTD(?:OUT|ERR)\z|\A[a-z+]+://})
          raise ArgumentError, "#{path} is a folder: name a file in it" if File.directory?(path)
          raise ArgumentError, "#{path} is a socket: write unix://#{File.expand_path(path)}" if File.socket?(path)
          return if File.writable?(File.exist?(path) ? path : File.dirname(path))

          raise ArgumentError, "#{path} cannot be written by this user"
        end

        # @param path [String]
        # @return [String] the same for all paths that lead to one file
        def file(path)
          File.realdirpath(path)
        rescue SystemCallError # no such folder
          File.expand_path(path)
        end

        # @param value [Object] what the configuration has
        # @return [String] it, for a message: passwords in addresses are left out, long texts are cut
        def shown(value)
          value.inspect.gsub(%r{(://)[^/@\s"]*@}, "\\1…@").then { |text| text.size > 80 ? "#{text[0, 79]}…" : text }
        end

        def expect(what, node)
          raise ArgumentError, "must be #{what}#{", not #{shown(node.plain)}" unless node.nothing?}"
        end
        private_class_method :expect
      end
    end
  end
end
