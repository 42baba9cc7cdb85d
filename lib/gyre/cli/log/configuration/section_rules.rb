# frozen_string_literal: true

# What the keys of one section must be together: what its table has (needed keys, keys that exclude
# others), and the rules that it names. Reader calls it for each section that it has read; single
# values are checked by then. It changes nothing.

require "gyre/cli/log/configuration/keys"
require "gyre/log/client/spool/trust"

module Gyre
  module CLI
    module Log
      class Configuration
        # The rules for one section of a file.
        class SectionRules
          # Names that no client of Analogger's protocol or ours can have, nor any program on
          # syslog: only a line of JSON.
          UNREACHABLE = /:|[^\x20-\x7e\u00a0-\u{10ffff}]|\A.{256,}\z/m.freeze
          # What decides about a file as a whole, and the default.
          FILE_KEYS = { format: "text", rotate: nil, mode: nil, owner: nil }.freeze
          private_constant :UNREACHABLE, :FILE_KEYS

          # @param reader [Reader] takes the mistakes and notices
          # @param section [Section]
          # @param node [Node] the mapping
          # @param nodes [Hash{String => Node}] what it has, right or wrong
          # @param values [Hash{Symbol => Object}] those that are right
          # @param place [String, nil] where it is (logs[2]); nil at the top
          def initialize(reader, section, node, nodes, values, place)
            @reader = reader
            @section = section
            @node = node
            @nodes = nodes
            @values = values
            @place = place
          end

          # @return [void]
          def apply
            missing = @section.needs.reject { |name| given?(name) }
            wrong(nil, "needs #{missing.join(" and ")}") if missing.any?
            if @section.needs_one.any? && @section.needs_one.none? { |name| given?(name) }
              wrong(nil, "needs #{@section.needs_one.join(", ")}, or both")
            end
            @section.excludes.each do |name, others|
              others = others.select { |other| given?(other) }
              next unless given?(name) && others.any?

              wrong(name, "cannot stand beside #{others.join(" and ")}; keep one of them")
            end
            @section.rules.each { |rule| send(rule) }
            written_files if @reader.places? && !%w[socket redis].include?(@values[:type])
          end

          private

          def given?(name) = @nodes.key?(name) && !@nodes[name].nothing?

          # @param name [String, nil] the key; nil: the section
          def wrong(name, text) = @reader.wrong(line(name), path(name), text)

          def notice(name, text) = @reader.notice(line(name), path(name), text)

          def line(name) = (name && @nodes[name]&.key_line) || @node.key_line || @node.line

          def path(name)
            [@place, name].compact.join(".").then { |path| path unless path.empty? }
          end

          # What is found out only when it is opened ends the server, also after USR2.
          def written_files
            @section.keys.each do |key|
              path = @values[key.name.to_sym] if key.place == :written
              reporting(key.name) { Checks.writable(path) } if path
            end
          end

          def reporting(name)
            yield
          rescue Errno::ENOENT
            nil # made when it is opened
          rescue ArgumentError, SystemCallError => error
            wrong(name, error.message)
          end

          # --- the top ---

          def logs = @values.fetch(:logs, []).select { |log| log[:services] }

          def inputs = @values.fetch(:inputs, [])

          def input_tls
            reporting("inputs") { inputs.each { |input| Gyre::Log::Input.own_tls(input, given?("tls")) } }
          end

          def services
            names = logs.flat_map { |log| log[:services] }
            names.tally.each { |name, count| notice("logs", "service #{name} is in #{count} entries; the last one counts") if count > 1 }
            return if inputs.any? { |input| input[:type] == "json" }

            names.uniq.grep(UNREACHABLE).each do |name|
              why = name.include?(":") ? "has a colon" : "is longer than 255 characters or has control characters"
              wrong("logs", "service #{Values.shown(name)} #{why}: no client can have that name, so nothing would go there")
            end
          end

          # What goes to one file goes through one output.
          def files
            all = (logs + [{ logfile: @values[:default_log] }]).select { |log| log[:logfile] }
            all.group_by { |log| Gyre::Log::Output::Remote.same_file(log[:logfile]) }.each_value do |group|
              FILE_KEYS.each do |name, otherwise|
                next if group.map { |log| log[name] || @values[name] || otherwise }.uniq.size == 1

                wrong("logs", "what goes to #{Values.shown(group.first[:logfile])} must have the same #{name} everywhere")
              end
            end
          end

          # Each is one output's own.
          def spills
            logs.select { |log| log[:spill] }.group_by { |log| File.expand_path(log[:spill]) }.each_value do |group|
              next if group.uniq { |log| log.values_at(:logfile, :type, :options) }.size == 1

              wrong("logs", "#{Values.shown(group.first[:spill])} is the spill of two outputs; each needs its own")
            end
          end

          # --- an entry of logs ---

          def log_without_service
            notice(nil, "has no service, so nothing goes there, as in Analogger") unless @nodes.key?("services")
          end

          def logfile
            return if !@nodes.key?("services") || given?("logfile") || %w[stdout stderr].include?(@values[:type])

            wrong(nil, "has no logfile: name a path, STDOUT or STDERR")
          end

          def socket
            return unless @values[:type] == "socket"

            reporting("options") do
              Gyre::Log::Output::Remote.endpoint(Gyre::Log::Output::Remote.socket_address(@values[:logfile].to_s, @values[:options]))
            end
          end

          def redis
            return unless @values[:type] == "redis" || @values[:logfile].to_s.start_with?("redis")

            remote = Gyre::Log::Output::Remote
            reporting("logfile") { remote.database(remote.redis_address(@values[:logfile])) } if @values[:logfile]
            return unless given?("options")
            return wrong("options", "redis has stream, max_length and shared, as keys with values") unless @nodes["options"].map?

            (@nodes["options"].value.keys - remote::REDIS_OPTIONS).each do |name|
              line = @nodes["options"].value[name].key_line
              @reader.wrong(line, path("options.#{name}"), "there is no such key; there are: #{remote::REDIS_OPTIONS.join(", ")}")
            end
          end

          def spill
            Gyre::Log::Output.spill_mistake(@values.merge(spill: given?("spill"))) { |name, text| return wrong(name.to_s, text) }
            reporting("spill") { Gyre::Log::Spool::Trust.entry(@values[:spill]) } if @reader.places? && @values[:spill]
          end

          # --- an input, and TLS ---

          def datagrams
            kind, tls = @values.values_at(:type, :tls)
            reporting("tls") { Array(@values[:bind]).each { |address| Gyre::Log::Input.endpoint(kind&.to_sym, address, tls: tls) } } if kind
          end

          def certificates
            if @values[:verify] && !given?("ca")
              wrong(nil, "verify needs ca: the authorities whose certificates are accepted")
            elsif @reader.places? && @values.key?(:certificate) && @values.key?(:key)
              require "gyre/net/tls"
              begin
                Gyre::TLS.server(**@values)
              rescue ArgumentError => error
                wrong(nil, error.message.delete_prefix("tls: "))
              end
            end
          end
        end
      end
    end
  end
end
