# frozen_string_literal: true

# The types of values that only the log's configuration has; Gyre::Values has the others. Each
# function takes a Node (or a flag's value in one), returns the value as the server takes it, and
# raises ArgumentError with what is expected instead. Analogger's forms mean the same as there. No
# message holds a secret, and nothing is opened.

require "gyre/log/output/access"
require "gyre/log/output/remote"
require "gyre/log/output/rotation/policy"
require "gyre/net/values"

module Gyre
  module CLI
    module Log
      class Configuration
        # The checks, by the types in Keys.
        module Checks
          module_function

          # @param type [Symbol, Array<String>] as in Keys
          # @param node [Node]
          # @return [Object] the value
          # @raise [ArgumentError] what is expected
          def check(type, node)
            type.is_a?(Symbol) && respond_to?(type) ? public_send(type, node) : Values.check(type, node.plain)
          end

          # Numbers and the like are what Analogger makes of them: their text, as YAML reads them.
          # @return [String, nil] nil for none
          def secret(node)
            raise ArgumentError, "must be text" unless node.kind == :scalar

            node.value.to_s.empty? ? nil : node.value.to_s
          end

          # A list, a name, names with commas between them, or a mapping whose keys are meant, as
          # Analogger has it.
          # @return [Array<String>]
          def levels(node)
            names = case node.kind
                    when :list then node.plain
                    when :map  then node.value.keys.map { |each| each.delete_prefix(":") }
                    else node.value.to_s.split(",")
                    end
            names = names.map { |each| each.to_s.strip }.reject(&:empty?).uniq unless names.any?(Enumerable)
            valid = names.all?(String) && (names.any? || node.list?)
            valid ? names : Values.expect("severities, as in: debug,info,warn", node.plain)
          end

          # @return [Array<String>]
          def services(node)
            names = node.list? ? node.plain : [node.plain]
            wrong = names.empty? || names.any? { |name| name.nil? || name.is_a?(Enumerable) || name == "" }
            wrong ? Values.expect("the name of a service, or a list of names", node.plain) : names.map(&:to_s).uniq
          end

          # @return [String] STDOUT and STDERR in capitals, in whatever case they were written
          def destination(node)
            path = node.value.is_a?(String) ? node.value : ""
            Values.expect("a path, STDOUT or STDERR", node.plain) if path.empty?
            return "STDOUT" if path == "-"
            return path.upcase if path.match?(/\ASTD(?:OUT|ERR)\z/i)

            Gyre::Log::Output::Remote.check(path)
            path
          end

          # @return [Boolean, Symbol] true, false or :optional
          def verification(node)
            return :optional if node.value == "optional"

            [true, false].include?(node.value) ? node.value : Values.expect("true, false or optional", node.plain)
          end

          # @return [Array<String>] addresses as Gyre::Endpoint reads them
          def addresses(node, transports: %i[tcp unix])
            list = node.list? ? node.plain : [node.plain]
            if list.empty? || list.any? { |each| each.nil? || each.is_a?(Enumerable) }
              Values.expect("an address, or a list of addresses", node.plain)
            end
            list.each { |each| Configuration.endpoint(each, transports: transports) }.map(&:to_s)
          end

          # @return [Array<String>] also such as take datagrams
          def sources(node) = addresses(node, transports: %i[tcp unix udp unixgram])

          # @return [Array, Hash] as it is
          def options(node) = node.map? ? node.plain.transform_keys(&:to_sym) : Array(node.plain)

          # In octal, with or without quotes. YAML reads 0640 as octal by itself, and 640 not.
          # @return [Integer]
          def mode(node)
            text = node.text.to_s
            return text.to_i(8) if text.match?(/\A0?[0-7]{3}\z/) && text.to_i(8).allbits?(0o600)

            Values.expect("a file mode in octal that lets the server write, such as 0640", node.plain)
          end

          # @return [String]
          def owner(node)
            name = node.kind == :scalar ? node.text.to_s : Values.expect("user, user:group or :group", node.plain)
            Gyre::Log::Output::Access.owner(name)
            name
          end

          # @return [Symbol, nil]
          def compression(node) = Gyre::Log::Rotation::Policy.compression(node.plain)

          # Checks what has to exist before the server starts.
          #
          # @param what [Symbol] the place in Keys
          # @param path [String] addresses and standard streams need nothing
          # @return [void]
          # @raise [ArgumentError]
          def place(what, path)
            return if path.match?(Gyre::Log::Output::Remote::ELSEWHERE)
            return Gyre::Log::Output::Access.folder(path) unless what == :file

            raise ArgumentError, "there is no file #{path}" unless File.exist?(path)
          end

          # @param path [String] of a file that is written to
          # @return [void]
          # @raise [ArgumentError]
          def writable(path)
            return if path.match?(Gyre::Log::Output::Remote::ELSEWHERE)

            Gyre::Log::Output::Access.place(path)
            return if File.writable?(File.exist?(path) ? path : File.dirname(path))

            raise ArgumentError, "#{path} cannot be written by this user"
          end
        end
      end
    end
  end
end
