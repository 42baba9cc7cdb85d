# frozen_string_literal: true

# Nodes and the tables of keys in, values out, with everything that is wrong or worth a word on the way. Used by
# Gyre::Log::Configuration, once a file. It stops at no mistake, opens nothing and never names a secret.

require "did_you_mean"
require "gyre/log/configuration/checks"
require "gyre/log/configuration/keys"

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
        def initialize(limits: [])
          @limits = limits
          @mistakes = []
          @notices = []
        end

        # @param node [Node] the whole document
        # @return [Hash{Symbol => Object}] what it says, by the names of Keys; what is empty is left out
        def read(node)
          return wrong(node.line, nil, "must be keys with values, as in: port: 6766") && {} unless node.map?

          values = section(node, Keys::TOP, nil)
          together(node, values)
          values
        end

        # @param line [Integer]
        # @param key [String, nil]
        # @param text [String]
        def wrong(line, key, text)
          @mistakes << Remark.new(line, key, text)
        end

        private

        def section(node, table, place)
          node.value.each_with_object({}) do |(name, value), values|
            key = table.find { |row| row.name == name }
            next unknown(name, value, table, place) unless key
            next if value.nothing?

            got = checked(key, value, path(place, name))
            values[name.to_sym] = got.first if got
          end
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
            mapping(entry, each_place) && whole(section(entry, key.table, each_place), entry, each_place)
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
            wrong(value.line, path(place, name), error.message.delete_prefix("#{row.name} "))
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

        # An entry of a list must say where its messages go, or what is listened for.
        def whole(values, node, place)
          return input(values, node, place) unless place.start_with?("logs")
          return notice(node.line, place, "has no service, so nothing goes there, as in Analogger") && nil unless node.value.key?("service")

          if !node.value.key?("logfile") && !%w[stdout stderr].include?(values[:type])
            wrong(node.line, place, "has no logfile: name a path, STDOUT or STDERR")
          end
          values
        end

        def input(values, node, place)
          %w[type bind].each { |name| wrong(node.line, place, "needs #{name}") unless node.value.key?(name) }
          values
        end

        # What cannot be said at once.
        def together(node, values)
          twice = values.keys & %i[host port]
          if values[:bind] && twice.any?
            wrong(node.value["bind"].key_line, "bind", "is said beside #{twice.join(" and ")}; keep bind, or #{twice.join(" and ")}")
          end
          wrong(node.value["key_file"].key_line, "key_file", "is said beside key; keep one of the two") if values[:key] && values[:key_file]
          tls(node.value["tls"], values[:tls]) if values[:tls]
          repeated(node, values[:logs]) if values[:logs]
        end

        def tls(node, values)
          missing = %i[certificate key].reject { |name| values[name] || node.value.key?(name.to_s) }
          wrong(node.key_line, "tls", "needs #{missing.join(" and ")}") if missing.any?
          wrong(node.key_line, "tls", "verify needs ca: the authorities whose certificates count") if values[:verify] && !values[:ca]
        end

        def repeated(node, logs)
          logs.flat_map { |log| log[:service] || [] }.tally.each do |name, count|
            notice(node.value["logs"].key_line, "logs", "service #{name} is in #{count} entries; the last one counts") if count > 1
          end
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

        def notice(line, key, text)
          @notices << Remark.new(line, key, text)
        end

        def path(place, name)
          place ? "#{place}.#{name}" : name
        end
      end
    end
  end
end
