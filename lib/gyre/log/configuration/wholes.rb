# frozen_string_literal: true

# What the keys of one section must be together: what is missing, what excludes another. Gyre::Log::Configuration::Reader calls it
# when it has read a section; single values are Checks' business. It changes nothing but {nowhere: true} for a log without service.

require "gyre/log/configuration/keys"
require "gyre/log/client/spool/trust"

module Gyre
  module Log
    class Configuration
      # What was read of one mapping: its Node, the values that are right, and where it is (logs[2]); nil at the top.
      Section = Struct.new(:node, :values, :place) do
        # @param name [String]
        # @return [Boolean] whether it is written, right or wrong
        def says?(name)
          node.value.key?(name) && !node.value[name].nothing?
        end

        # @return [Integer] the line of a key, or of the section
        def line(name = nil)
          (name && node.value[name]&.key_line) || node.key_line || node.line
        end

        # @return [String]
        def path(name)
          place ? "#{place}.#{name}" : name
        end
      end

      # A method for each table that needs it.
      module Wholes
        PLACES = { Keys::TOP => :top, Keys::LOG => :log, Keys::INPUT => :input, Keys::TLS => :tls, Keys::ROTATE => :rotate }.freeze
        REDIS_OPTIONS = %w[stream max_length].freeze
        # What is no path.
        ELSEWHERE = %r{://|\A(?:-|std(?:out|err))?\z}i.freeze
        private_constant :PLACES, :REDIS_OPTIONS, :ELSEWHERE

        module_function

        # @param table [Array<Key>]
        # @param reader [Reader] told what is wrong
        # @param section [Section]
        # @return [void]
        def look_at(table, reader, section)
          public_send(PLACES.fetch(table), reader, section)
        end

        def top(reader, section)
          twice = %w[host port].select { |name| section.says?(name) }
          if section.says?("bind") && twice.any?
            reader.wrong(section.line("bind"), "bind", "cannot stand beside #{twice.join(" and ")}; keep bind, or #{twice.join(" and ")}")
          end
          if section.says?("key") && section.says?("key_file")
            reader.wrong(section.line("key_file"), "key_file", "cannot stand beside key; keep one of the two")
          end
          if !section.says?("tls") && section.values.fetch(:inputs, []).any? { |input| input[:tls] }
            reader.wrong(section.line("inputs"), "inputs", "tls: true needs tls: with certificate and key, at the top")
          end
          services = section.values.fetch(:logs, []).flat_map { |log| log[:service] || [] }
          services.tally.each do |name, count|
            reader.notice(section.line("logs"), "logs", "service #{name} is in #{count} entries; the last one counts") if count > 1
          end
          unreachable(reader, section, services)
          files(reader, section)
          spills(reader, section)
          %w[default_log pidfile].each { |name| writable(reader, section, name) }
        end

        # Names that no client of Analogger's protocol or ours can have, nor any program on syslog: only a line of JSON.
        def unreachable(reader, section, services)
          return if section.values.fetch(:inputs, []).any? { |input| input[:type] == "json" }

          services.uniq.grep(/:|[^\x20-\x7e\u00a0-\u{10ffff}]|\A.{256,}\z/m).each do |name|
            why = name.include?(":") ? "has a colon" : "is longer than 255 characters or has control characters"
            problem = "service #{Checks.shown(name)} #{why}: no client can have that name, so nothing would go there"
            reader.wrong(section.line("logs"), "logs", problem)
          end
        end

        # What goes to one file goes through one output.
        def files(reader, section)
          logs = section.values.fetch(:logs, []).reject { |log| log[:nowhere] } + [{ logfile: section.values[:default_log] }]
          logs.select { |log| log[:logfile] }.group_by { |log| Checks.file(log[:logfile]) }.each_value do |group|
            { format: "text", rotate: nil, mode: nil, owner: nil }.each do |name, otherwise|
              next if group.map { |log| log[name] || section.values[name] || otherwise }.uniq.size == 1

              reader.wrong(section.line("logs"), "logs", "what goes to #{Checks.shown(group.first[:logfile])} must have the same #{name} everywhere")
            end
          end
        end

        # Each is one output's own.
        def spills(reader, section)
          section.values.fetch(:logs, []).select { |log| log[:spill] }.group_by { |log| File.expand_path(log[:spill]) }.each_value do |group|
            next if group.uniq { |log| log.values_at(:logfile, :type, :options) }.size == 1

            reader.wrong(section.line("logs"), "logs", "#{Checks.shown(group.first[:spill])} is the spill of two outputs; each needs its own")
          end
        end

        def log(reader, section)
          unless section.node.value.key?("service")
            section.values[:nowhere] = true
            return reader.notice(section.line, section.place, "has no service, so nothing goes there, as in Analogger")
          end
          if !section.says?("logfile") && !%w[stdout stderr].include?(section.values[:type])
            reader.wrong(section.line, section.place, "has no logfile: name a path, STDOUT or STDERR")
          end
          socket(reader, section) if section.values[:type] == "socket"
          redis(reader, section) if section.values[:type] == "redis" || section.values[:logfile].to_s.start_with?("redis")
          spill(reader, section)
          writable(reader, section, "logfile") unless %w[socket redis].include?(section.values[:type])
        end

        def spill(reader, section)
          spills = section.values[:when_full] == "spill"
          if spills && file?(section.values)
            problem = "spill is for sockets, pipes and Redis; a log file is on a disk already: say block or drop"
            reader.wrong(section.line("when_full"), section.path("when_full"), problem)
          elsif spills && !section.says?("spill")
            reader.wrong(section.line("when_full"), section.path("when_full"), "spill needs spill: a folder of its own")
          elsif section.says?("spill") && !spills
            reader.wrong(section.line("spill"), section.path("spill"), "counts with when_full: spill only")
          end
          Spool::Trust.entry(section.values[:spill]) if spills && reader.places? && section.values[:spill]
        rescue Errno::ENOENT
          nil # it is made
        rescue SystemCallError => error
          reader.wrong(section.line("spill"), section.path("spill"), error.message)
        end

        # Also one that is not there yet.
        def file?(log)
          return false unless [nil, "file"].include?(log[:type])

          name = log[:logfile].to_s
          !name.match?(ELSEWHERE) && (!File.exist?(name) || File.file?(name))
        end

        # What is found out only when it is opened ends the server, also after USR2.
        def writable(reader, section, name)
          Checks.writable(section.values[name.to_sym]) if reader.places? && section.values[name.to_sym]
        rescue ArgumentError => error
          reader.wrong(section.line(name), section.path(name), error.message)
        end

        def socket(reader, section)
          address = Output::Remote.socket_address(section.values[:logfile].to_s, section.values[:options])
          Output::Remote.endpoint(address)
        rescue ArgumentError => error
          reader.wrong(section.line("options"), section.path("options"), error.message)
        end

        def redis(reader, section)
          database(reader, section)
          options = section.node.value["options"]
          return if options.nil? || options.nothing?
          return reader.wrong(options.line, section.path("options"), "redis has stream and max_length, as keys with values") unless options.map?

          (options.value.keys - REDIS_OPTIONS).each do |name|
            problem = "there is no such key; there are: #{REDIS_OPTIONS.join(", ")}"
            reader.wrong(options.value[name].key_line, section.path("options.#{name}"), problem)
          end
        end

        def database(reader, section)
          Output::Remote.database(Output::Remote.redis_address(section.values[:logfile])) if section.values[:logfile]
        rescue ArgumentError => error
          reader.wrong(section.line("logfile"), section.path("logfile"), error.message)
        end

        def input(reader, section)
          %w[type bind].each { |name| reader.wrong(section.line, section.place, "needs #{name}") unless section.says?(name) }
          datagrams = Array(section.values[:bind]).grep(/\A(?:udp|unixgram):/i)
          return unless section.values[:tls] && datagrams.any?

          reader.wrong(section.line("tls"), section.path("tls"), "there is no TLS for datagrams (#{datagrams.first})")
        end

        def tls(reader, section)
          missing = %w[certificate key].reject { |name| section.says?(name) }
          reader.wrong(section.line, section.place, "needs #{missing.join(" and ")}") if missing.any?
          unfounded = section.values[:verify] && !section.says?("ca")
          reader.wrong(section.line, section.place, "verify needs ca: the authorities whose certificates count") if unfounded
          context(reader, section) if reader.places? && !unfounded && section.values.key?(:certificate) && section.values.key?(:key)
        end

        # What is in the files.
        def context(reader, section)
          require "gyre/net/tls"
          TLS.server(**section.values)
        rescue ArgumentError => error
          reader.wrong(section.line, section.place, error.message.delete_prefix("tls: "))
        end

        def rotate(reader, section)
          reader.wrong(section.line, section.place, "needs size, every, or both") unless section.says?("size") || section.says?("every")
        end
      end
    end
  end
end
