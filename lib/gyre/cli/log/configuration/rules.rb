# frozen_string_literal: true

# Checks that a log server's settings, valid one by one, also fit together. Checks the files and
# folders that they name. Changes nothing.

require "gyre/log/output"
require "gyre/log/server/inlet"

module Gyre
  module CLI
    module Log
      class Configuration
        class Rules
          EXCLUDES = { bind: %i[host port], key_file: %i[key] }.freeze
          # Service names that only JSON lines can carry; Analogger's and Gyre's protocols and
          # syslog cannot.
          UNREACHABLE = /:|[^\x20-\x7e\u00a0-\u{10ffff}]|\A.{256,}\z/m.freeze
          # Keys that all logs of one file share, with their defaults.
          FILE_KEYS = Gyre::Log::Output::FILE_ROWS.to_h { |row| [row.name, row.default] }.freeze

          def initialize(values, faults)
            @values = values
            @faults = faults
            @logs = (values[:logs] || []).select { |log| log[:services] }
            @inputs = values[:inputs] || []
          end

          def apply
            EXCLUDES.each do |name, others|
              others = others.select { |other| @values.key?(other) }
              @faults.add(name.to_s, "cannot stand beside #{others.join(" and ")}; keep one of them") if @values.key?(name) && others.any?
            end
            @faults.at("inputs") { @inputs.each { |input| Gyre::Log::Inlet.own_tls(input, @values.key?(:tls)) } }
            services
            files
            spills
          end

          # Checks files and folders: a mistake there would end the server later, even after USR2.
          def places
            place("default_log") { Rules.writable(@values[:default_log]) }
            place("pidfile") { Rules.writable(@values[:pidfile]) }
            place("tls") { tls(@values[:tls]) } if @values[:tls]
            (@values[:logs] || []).each_with_index do |log, index|
              place("logs[#{index + 1}].logfile") { Rules.writable(log[:logfile]) } if Gyre::Log::Output.kind(log)::SCHEMES.none?
              place("logs[#{index + 1}].spill") { spill(log[:spill]) } if log[:spill]
            end
          end

          # Raises ArgumentError if this process cannot write the file.
          def self.writable(path)
            return if path.nil? || Gyre::Log::Output.elsewhere?(path)

            Gyre::Log::Output::Access.place(path)
            return if File.writable?(File.exist?(path) ? path : File.dirname(path))

            raise ArgumentError, "#{path} cannot be written by this user"
          end

          private

          def tls(settings)
            Gyre::TLS.server(**settings)
          rescue ArgumentError => error
            raise ArgumentError, error.message.delete_prefix("tls: ")
          end

          def spill(folder)
            Gyre::Log::Output::Access.folder(folder)
            Gyre::Log::Ownership.check_folder(folder)
          end

          def place(path, &block)
            @faults.at(path, &block)
          rescue Errno::ENOENT
            nil # made when it is opened
          rescue SystemCallError => error
            @faults.add(path, error.message)
          end

          def services
            return if @inputs.any? { |input| input[:type] == "json" }

            @logs.flat_map { |log| log[:services] }.uniq.grep(UNREACHABLE).each do |name|
              why = name.include?(":") ? "has a colon" : "is longer than 255 characters or has control characters"
              @faults.add("logs", "service #{Gyre::Settings.shown(name)} #{why}: no client can have that name, so nothing would go there")
            end
          end

          # Checks that logs with the same file agree in FILE_KEYS, because a file has one output.
          def files
            all = [*@logs, { logfile: @values[:default_log] }].select { |log| log[:logfile] }
            all.group_by { |log| Gyre::Log::Output.same_file(log[:logfile]) }.each_value do |group|
              FILE_KEYS.each do |name, otherwise|
                next if group.map { |log| log[name] || @values[name] || otherwise }.uniq.size == 1

                @faults.add("logs", "logs to #{Gyre::Settings.shown(group.first[:logfile])} must have the same #{name} everywhere")
              end
            end
          end

          # Checks that each spill belongs to one output only.
          def spills
            @logs.select { |log| log[:spill] }.group_by { |log| File.expand_path(log[:spill]) }.each_value do |group|
              next if group.uniq { |log| log.values_at(:logfile, :type, :options) }.size == 1

              @faults.add("logs", "#{Gyre::Settings.shown(group.first[:spill])} is the spill of two outputs; each needs its own")
            end
          end
        end
      end
    end
  end
end
