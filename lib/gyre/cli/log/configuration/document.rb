# frozen_string_literal: true

# YAML as nodes with their lines: what Gyre::CLI::Log::Configuration::Reader reads. Aliases and
# merge keys are resolved; tags that would make Ruby objects are refused. It has no key of the
# configuration and opens no file.

require "psych"

module Gyre
  module CLI
    module Log
      class Configuration
        # A value of the file: a :map (its value is a Hash of Strings to nodes), a :list (an Array
        # of nodes) or a :scalar (what YAML makes of the text). `line` counts from 1; `text` is the
        # scalar as written; `key_line` is where its key stands.
        Node = Struct.new(:kind, :value, :line, :text, :key_line) do
          # @return [Boolean]
          def map? = kind == :map

          # @return [Boolean]
          def list? = kind == :list

          # @return [Boolean] an empty value, or a `null`
          def nothing? = kind == :scalar && value.nil?

          # @return [Object] the value without nodes
          def plain
            case kind
            when :map  then value.transform_values(&:plain)
            when :list then value.map(&:plain)
            else value
            end
          end
        end

        # One YAML text.
        class Document
          # More than any configuration has.
          NODES_LIMIT = 100_000

          # @return [Node, nil] nil for an empty file
          attr_reader :root

          # @param text [String]
          # @yieldparam line [Integer]
          # @yieldparam key [String, nil] what is wrong about
          # @yieldparam message [String]
          def initialize(text, &mistake)
            @mistake = mistake
            @scanner = Psych::ScalarScanner.new(Psych::ClassLoader::Restricted.new(["Symbol"], []))
            @anchors = {}
            @count = 0
            stream = Psych.parse_stream(text)
            @root = node(stream.children.first.root) if stream.children.any?
            mistake.call(stream.children[1].start_line + 1, nil, "one file has one document; remove the line ---") if stream.children.size > 1
          rescue Psych::SyntaxError => error
            mistake.call(line_of(error, text), nil, "is not valid YAML: #{[error.problem, error.context].compact.join(" ").strip}")
          end

          private

          # Psych names the line where the broken part began, the whole mapping for instance. The
          # mistake is in the first line with which the text breaks in this way.
          def line_of(error, text)
            lines = text.lines
            index = (0...lines.size).bsearch do |last|
              Psych.parse_stream(lines[0..last].join) && false
            rescue Psych::SyntaxError => other
              [other.problem, other.context, other.line] == [error.problem, error.context, error.line]
            end
            index ? index + 1 : [error.line, 1].max
          end

          def node(yaml)
            @count += 1
            return nothing(yaml, "too many values: more than #{NODES_LIMIT}") if @count > NODES_LIMIT
            return aliased(yaml) if yaml.is_a?(Psych::Nodes::Alias)
            return nothing(yaml, "the tag #{yaml.tag} has no place here; remove it") if foreign?(yaml.tag)

            anchor = yaml.anchor
            @anchors[anchor] = :open if anchor
            made = make(yaml)
            @anchors[anchor] = made if anchor
            made
          end

          def make(yaml)
            line = yaml.start_line + 1
            case yaml
            when Psych::Nodes::Mapping  then Node.new(:map, pairs(yaml), line)
            when Psych::Nodes::Sequence then Node.new(:list, yaml.children.map { |child| node(child) }, line)
            else Node.new(:scalar, scalar(yaml), line, yaml.value)
            end
          end

          def pairs(yaml)
            merged = {}
            own = {}
            yaml.children.each_slice(2) do |key, value|
              name = key.is_a?(Psych::Nodes::Scalar) ? (key.quoted ? key.value : scalar(key, &:inspect)).to_s : ""
              made = node(value).dup
              made.key_line = key.start_line + 1
              if name == "<<" && !key.quoted then merge(merged, made)
              else
                @mistake.call(made.key_line, name, "is here twice; keep one of the two") if own.key?(name)
                own[name] = made
              end
            end
            merged.merge(own)
          end

          def merge(pairs, node)
            (node.list? ? node.value : [node]).each do |each|
              next @mistake.call(node.key_line, "<<", "must be a mapping that an anchor (&name) stands at") unless each.map?

              pairs.replace(each.value.merge(pairs))
            end
          end

          # Symbols become their names; as keys they are none of the configuration's, so there a
          # block makes the text.
          def scalar(yaml)
            return yaml.value if yaml.quoted || yaml.tag == "!" || yaml.tag&.end_with?(":str")

            value = @scanner.tokenize(yaml.value)
            return value unless value.is_a?(Symbol)

            block_given? ? yield(value) : value.to_s
          rescue Psych::DisallowedClass # a date or a time
            yaml.value
          end

          def foreign?(tag) = tag && tag != "!" && !tag.start_with?("tag:yaml.org,2002:")

          def aliased(yaml)
            made = @anchors[yaml.anchor]
            return made if made.is_a?(Node)

            nothing(yaml, made ? "*#{yaml.anchor} holds itself" : "there is no &#{yaml.anchor} above for *#{yaml.anchor}")
          end

          def nothing(yaml, message)
            @mistake.call(yaml.start_line + 1, nil, message)
            Node.new(:scalar, nil, yaml.start_line + 1, "")
          end
        end
      end
    end
  end
end
