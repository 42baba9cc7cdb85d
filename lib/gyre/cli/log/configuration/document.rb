# frozen_string_literal: true

# Parses YAML into plain values and line numbers. Refuses tags for Ruby objects. Opens no file.

require "psych"

module Gyre
  module CLI
    module Log
      class Configuration
        class Document
          # Reads symbols, dates and times as text.
          class Scanner < Psych::ScalarScanner
            def tokenize(text)
              value = super
              value.is_a?(Symbol) ? value.to_s : value
            rescue Psych::DisallowedClass
              text
            end
          end

          # The document's values; nil for an empty file.
          attr_reader :plain

          # Yields each mistake's line, key and message.
          def initialize(text, &mistake)
            stream = Psych.parse_stream(text)
            @root = stream.children.first&.root
            mistake.call(line(stream.children[1]), nil, "one file has one document; remove the line ---") if stream.children.size > 1
            mistake.call(line(tag), nil, "the tag #{tag.tag} has no place here; remove it") if tag
            refuse_double_keys(mistake)
            loader = Psych::ClassLoader::Restricted.new(["Symbol"], [])
            @plain = Psych::Visitors::ToRuby.new(Scanner.new(loader), loader).accept(@root) if @root
          rescue Psych::SyntaxError => error
            mistake.call([error.line, 1].max, nil, "is not valid YAML: #{[error.problem, error.context].compact.join(" ").strip}")
          rescue Psych::BadAlias => error
            name = error.message[/\S+\z/]
            mistake.call(line(@root.grep(Psych::Nodes::Alias).find { |node| node.anchor == name }), nil, "there is no &#{name} above for *#{name}")
          rescue Psych::Exception => error
            mistake.call(1, nil, error.message) unless tag # it is reported
          end

          # Returns the line of a path like logs[2].levels, or of the longest existing part of the
          # path.
          def line_of(path)
            found, line = @root, line(@root)
            path.to_s.scan(/\[(\d+)\]|([^.\[]+)/) do |index, name|
              key, found = child(found, index, name)
              return line unless found

              line = line(key)
            end
            line
          end

          # Returns a top-level scalar as it is written in the file.
          def written(name)
            _, node = child(@root, nil, name)
            node.value if node.is_a?(Psych::Nodes::Scalar)
          end

          private

          def line(node) = node ? node.start_line + 1 : 1

          # Returns a key's node and its value's node; for an entry of a list, twice the entry's
          # node.
          def child(node, index, name)
            case node
            when Psych::Nodes::Sequence then index && node.children[index.to_i - 1].then { |entry| [entry, entry] }
            when Psych::Nodes::Mapping  then name && node.children.each_slice(2).find { |key, _| key.respond_to?(:value) && key.value == name }
            end
          end

          def tag = @root&.find { |node| node.respond_to?(:tag) && node.tag && !node.tag.match?(/\A!\z|\Atag:yaml\.org,2002:/) }

          def refuse_double_keys(mistake)
            @root&.grep(Psych::Nodes::Mapping)&.each do |mapping|
              keys = mapping.children.each_slice(2).map(&:first).grep(Psych::Nodes::Scalar).reject { |key| key.value == "<<" }
              keys.group_by(&:value).each_value do |same|
                mistake.call(line(same[1]), same[1].value, "is here twice; keep one of the two") if same.size > 1
              end
            end
          end
        end
      end
    end
  end
end
