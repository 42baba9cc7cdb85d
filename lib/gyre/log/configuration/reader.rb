# frozen_string_literal: true

# Nodes and the tables of keys in, values out, with everything that is wrong or worth a word on the way. Used by
# Gyre::Log::Configuration, once a file. It stops at no mistake, opens nothing and never names a secret.

require "did_you_mean"
require "gyre/log/configuration/checks"
require "gyre/log/configuration/keys"
require "gyre/log/configuration/wholes"

module Gyre
  module Log
    class Configuration
      # One thing to say about the file: its line, the key as people point at it (logs[2].levels), and the text.
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
        # @return [Array<Remark>] what works, but perhaps not as its author thinks
        attr_reader :notices

        # @param limits [Array] the rows of the server's limits: name, unit and `check`
        # @param places [Boolean] whether files and folders that are named have to be there
        def initialize(limits: [], places: false)
          @limits = limits
          @places = places
          @mistakes = []
          @notices = []
        end

        # @return [Boolean]
        def places?
          @places
        end

        # @param node [Node] the whole document
        # @return [Hash{Symbol => Object}] what it says, by the names of Keys; what is empty is left out
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
          values = node.value.each_with_object({}) do |(name, value), found|
            key = table.find { |row| row.name == name }
            next unknown(name, value, table, place) unless key
            next if value.nothing?

            got = checked(key, value, path(place, name))
            found[name.to_sym] = got.first if got
          end
          Wholes.look_at(table, self, Section.new(node, values, place))
          values
        end

        # @return [Array(Object), nil] the value in an Array; nil when there is none
        def checked(key, node, place)
          case key.check
          when :section then return mapping(node, place) && [section(node, key.table, place)]
          when :list    then return list(key, node, place)
          when :limits  then return mapping(node, place) && [limits(node, place)]
          when :ignored then return ignored(key, node, place)
          when Array    then value = Checks.choice(node, key.check)
          else value = Checks.public_send(key.check, node)
          end
          Checks.needed(key.needs, value) if key.needs && @places
          remark(key, node, place, value)
          [value]
        rescue ArgumentError => error
          wrong(node.line, place, key.hidden ? error.message[/\A[^,]*/] : error.message)
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
          entries = node.value.each_with_index.filter_map do |entry, index|
            each_place = "#{place}[#{index + 1}]"
            next unless mapping(entry, each_place)

            values = section(entry, key.table, each_place)
            values unless values[:nowhere]
          end
          [entries]
        end

        def limits(node, place)
          rows = @limits.to_h { |row| [short(row), row] }
          node.value.each_with_object({}) do |(name, value), values|
            row = rows[name] || @limits.find { |each| each.name.to_s == name }
            next unknown(name, value, rows.keys.map { |each| Key.new(each) }, place) unless row

            values[row.name] = limit(row, value)
          rescue ArgumentError => error
            wrong(value.line, path(place, name), error.message.delete_prefix("#{row.name} ").sub("or nil", "or none"))
          end
        end

        def limit(row, node)
          case row.unit
          when :bytes   then row.check(Checks.bytes(node))
          when :seconds then row.check(%w[none off].include?(node.value) || node.value == false ? nil : Checks.seconds(node))
          else row.check(Checks.count(node))
          end
        end

        def short(row)
          row.name.to_s.delete_suffix("_s")
        end

        def ignored(key, node, place)
          notice(node.key_line, place, "#{key.meaning}; it may be removed")
          nil
        end

        def remark(key, node, place, value)
          case key.check
          when :secret
            if !node.value.is_a?(String) && node.value.to_s != node.text
              notice(node.line, place, "YAML does not read this as text, which changes it; put it in quotes if clients cannot get in")
            end
          when :levels
            notice(node.line, place, "lets nothing through") if value.empty?
            off = node.map? ? node.value.select { |_, each| each.value == false }.keys : []
            notice(node.line, place, "#{off.join(", ")} is let through, as in Analogger, whatever stands behind; remove it") if off.any?
          end
        end

        def unknown(name, node, table, place)
          names = table.map(&:name)
          bare = name.delete_prefix(":")
          near = [bare, Keys::FOREIGN[bare]].find { |each| names.include?(each) }
          near ||= DidYouMean::SpellChecker.new(dictionary: names).correct(bare).first
          hint = near ? "did you mean #{near}?" : "there are: #{names.join(", ")}"
          wrong(node.key_line || node.line, path(place, name.empty? ? "(no name)" : name), "there is no such key; #{hint}")
        end

        def path(place, name)
          place ? "#{place}.#{name}" : name
        end
      end
    end
  end
end
