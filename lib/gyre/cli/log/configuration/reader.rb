# frozen_string_literal: true

# Nodes and the tables of keys in; values out, and a remark for each mistake and for what works
# otherwise than it seems. Used by Gyre::CLI::Log::Configuration, once a file. It stops at no
# mistake, opens nothing and never shows a secret.

require "did_you_mean"
require "gyre/cli/log/configuration/checks"
require "gyre/cli/log/configuration/keys"
require "gyre/cli/log/configuration/section_rules"

module Gyre
  module CLI
    module Log
      class Configuration
        # One remark about the file: its line, the key as people point at it (logs[2].levels), and
        # the text.
        Remark = Struct.new(:line, :key, :text) do
          # @param path [String] what the file is called
          # @return [String] path:line: key: text
          def to_s(path)
            "#{path}:#{line}: #{"#{key}: " if key}#{text}"
          end
        end

        # Reads one document.
        class Reader
          # @return [Array<Remark>]
          attr_reader :mistakes
          # @return [Array<Remark>] what works, but perhaps not as its author means it
          attr_reader :notices

          # @param limits [Class] the server's limits, a table made by Gyre::Limits.with_table
          # @param places [Boolean] whether files and folders that are named have to be there
          def initialize(limits: Gyre::Log::Limits, places: false)
            @limits = limits
            @places = places
            @mistakes = []
            @notices = []
          end

          # @return [Boolean]
          def places? = @places

          # @param node [Node] the whole document
          # @return [Hash{Symbol => Object}] its values, by the names of Keys; what is empty is left
          #   out
          def read(node)
            return wrong(node.line, nil, "must be keys with values, as in: port: 6766") && {} unless node.map?

            section(node, Keys::TOP, nil)
          end

          # @param line [Integer]
          # @param key [String, nil]
          # @param text [String]
          def wrong(line, key, text)
            @mistakes << Remark.new(line, key, text)
          end

          # @param line [Integer]
          # @param key [String, nil]
          # @param text [String]
          def notice(line, key, text)
            @notices << Remark.new(line, key, text)
          end

          private

          def section(node, table, place)
            nodes = own_names(node.value, table, place)
            values = nodes.each_with_object({}) do |(name, value), found|
              key = table.key(name)
              next unknown(name, value, table.names, place) unless key
              next if value.nothing?

              got = checked(key, value, path(place, name))
              found[name.to_sym] = got.first if got
            end
            SectionRules.new(self, table, node, nodes, values, place).apply
            values
          end

          # Analogger's keys by the names that they have here.
          def own_names(nodes, table, place)
            nodes.each_with_object({}) do |(name, node), own|
              own_name = table.analogger.fetch(name, name)
              if own_name.nil?
                notice(node.key_line, path(place, name), "does nothing, as in Analogger; it may be removed") unless node.nothing?
              elsif own.key?(own_name)
                wrong(node.key_line, path(place, name), "is the same as #{own_name}; keep one of the two")
              else
                own[own_name] = node
              end
            end
          end

          # @return [Array(Object), nil] the value in an Array; nil when there is none
          def checked(key, node, place)
            case key.type
            when :section then return mapping(node, place) && [section(node, key.section, place)]
            when :list    then return list(key, node, place)
            when :limits  then return mapping(node, place) && [limits(node, place)]
            end
            value = Checks.check(key.type, node)
            Checks.place(key.place, value) if key.place && @places
            remark(key, node, place, value)
            [value]
          rescue ArgumentError => error
            wrong(node.line, place, key.secret ? error.message[/\A[^,]*/] : error.message)
            nil
          end

          def mapping(node, place)
            node.map? or (wrong(node.line, place, "must be keys with values") && nil)
          end

          def list(key, node, place)
            unless node.list?
              wrong(node.line, place, "must be a list: each entry begins with a dash")
              return
            end
            [node.value.each_with_index.filter_map do |entry, index|
              each_place = "#{place}[#{index + 1}]"
              section(entry, key.section, each_place) if mapping(entry, each_place)
            end]
          end

          def limits(node, place)
            node.value.each_with_object({}) do |(name, value), values|
              row = @limits.find(name) or next unknown(name, value, @limits::TABLE.map(&:word), place)
              values[row.name] = row.read(value.plain)
            rescue ArgumentError => error
              wrong(value.line, path(place, name), error.message)
            end
          end

          def remark(key, node, place, value)
            case key.type
            when :secret
              if !node.value.is_a?(String) && node.value.to_s != node.text
                notice(node.line, place, "YAML does not read this as text, which changes it; put it in quotes if clients cannot get in")
              end
            when :levels
              notice(node.line, place, "lets nothing through") if value.empty?
              off = node.map? ? node.value.select { |_, each| each.value == false }.keys : []
              notice(node.line, place, "#{off.join(", ")} is let through, as in Analogger, whatever its value; remove it") if off.any?
            end
          end

          def unknown(name, node, names, place)
            bare = name.delete_prefix(":")
            near = [bare, Keys::FOREIGN[bare]].find { |each| names.include?(each) }
            near ||= DidYouMean::SpellChecker.new(dictionary: names).correct(bare).first
            hint = near ? "did you mean #{near}?" : "there are: #{names.join(", ")}"
            wrong(node.key_line || node.line, path(place, name.empty? ? "(no name)" : name), "there is no such key; #{hint}")
          end

          def path(place, name) = place ? "#{place}.#{name}" : name
        end
      end
    end
  end
end
