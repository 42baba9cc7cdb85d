# frozen_string_literal: true

# Formats of the access log with fields of the user's own, in Apache's directives (mod_log_config):
# a line of text, or JSON with names. Gyre::Web::LogFormat makes them. Text in, text out; no client
# can forge a line or end a quoted field through them.

require "json"

module Gyre
  module Web
    # What stands between % and its letter, read once; each request runs a list of blocks.
    class LogTemplate
      # One request, for the blocks.
      Entry = Struct.new(:env, :status, :bytes, :seconds)
      # One directive: whether its value is a number, and a block that finds it.
      Field = Struct.new(:number, :find)
      private_constant :Entry, :Field

      # Where the headers of a response are, for %{name}o (see {ResponseHeaders}).
      HEADERS = "gyre.response_headers"
      DIRECTIVE = /%(?:>|<)?(?:\{([^}]*)\})?(.)?/m.freeze
      # A space would end a field that has no quotes around it; these have spaces of their own.
      SPACED = %w[t r].freeze
      private_constant :DIRECTIVE, :SPACED

      PLAIN = {
        "h" => Field.new(false, ->(e) { LogFormat.client(e.env) }), "a" => Field.new(false, ->(e) { LogFormat.client(e.env) }),
        "l" => Field.new(false, ->(_) {}), "u" => Field.new(false, ->(e) { e.env["REMOTE_USER"] }),
        "r" => Field.new(false, lambda { |e|
          "#{e.env["REQUEST_METHOD"] || "-"} #{LogFormat.target(e.env) || "-"} #{e.env["SERVER_PROTOCOL"] || "-"}"
        }),
        "m" => Field.new(false, ->(e) { e.env["REQUEST_METHOD"] }), "H" => Field.new(false, ->(e) { e.env["SERVER_PROTOCOL"] }),
        "U" => Field.new(false, ->(e) { LogFormat.target(e.env)&.partition("?")&.first }),
        "q" => Field.new(false, ->(e) { e.env["QUERY_STRING"].to_s.empty? ? "" : "?#{e.env["QUERY_STRING"]}" }),
        "v" => Field.new(false, ->(e) { e.env["SERVER_NAME"] }), "V" => Field.new(false, ->(e) { e.env["SERVER_NAME"] }),
        "p" => Field.new(false, ->(e) { e.env["SERVER_PORT"] }), "P" => Field.new(true, ->(_) { Process.pid }),
        "L" => Field.new(false, ->(e) { e.env["HTTP_X_REQUEST_ID"] }),
        "s" => Field.new(true, :status.to_proc), "B" => Field.new(true, :bytes.to_proc),
        "b" => Field.new(true, ->(e) { e.bytes unless e.bytes.zero? }),
        "D" => Field.new(true, ->(e) { (e.seconds * 1_000_000).round }), "T" => Field.new(true, ->(e) { e.seconds.to_i })
      }.freeze
      UNITS = { "s" => [1, 0], "ms" => [1_000, 0], "us" => [1_000_000, 0], "frac" => [1, 6] }.freeze
      private_constant :PLAIN, :UNITS

      # @param name [String, nil] what stands in braces
      # @param letter [String]
      # @return [Field]
      # @raise [ArgumentError]
      def self.field(name, letter)
        found = name ? named(name, letter) : letter == "t" ? clf_time : PLAIN[letter]
        found or raise ArgumentError, "%#{"{#{name}}" if name}#{letter} is no directive of the access log; there are " \
                                      "#{PLAIN.keys.map { |each| "%#{each}" }.join(" ")} %t %{name}i %{name}o %{key}e %{format}t %{unit}T %%"
      end

      def self.named(name, letter)
        case letter
        when "i"
          key = name.upcase.tr("-", "_")
          key = "HTTP_#{key}" unless %w[CONTENT_TYPE CONTENT_LENGTH].include?(key)
          Field.new(false, ->(e) { e.env[key] })
        when "o" then Field.new(false, ->(e) { header(e.env[HEADERS], name.downcase) })
        when "e" then Field.new(false, ->(e) { e.env[name] })
        when "t" then Field.new(false, ->(_) { Time.now.strftime(name) })
        when "T"
          factor, digits = UNITS.fetch(name) { raise ArgumentError, "%{#{name}}T: the unit must be #{UNITS.keys.join(", ")}" }
          Field.new(true, ->(e) { (e.seconds * factor).round(digits) })
        end
      end

      def self.header(headers, name)
        return unless headers.respond_to?(:[])

        value = headers[name]
        value.is_a?(Array) ? value.join(", ") : value
      end

      # Made again once a second.
      def self.clf_time
        second = text = nil
        Field.new(false, lambda { |_|
          now = Process.clock_gettime(Process::CLOCK_REALTIME, :second)
          text = Time.at(now).strftime("[%d/%b/%Y:%H:%M:%S %z]") unless now == second
          second = now
          text
        })
      end
      private_class_method :named, :header, :clf_time

      # @param text [String] with directives
      # @raise [ArgumentError] an unknown directive, or a line end in it
      def initialize(text)
        raise ArgumentError, "a format of the access log is one line" if text.match?(/[\r\n]/)

        @response_headers = text.match?(/%[<>]?\{[^}]*\}o/)
        @parts = []
        rest = text
        until rest.empty?
          before, match, rest = rest.partition(DIRECTIVE)
          @parts << before unless before.empty?
          add($1, $2) unless match.empty?
        end
      end

      # @return [Boolean] whether it has to have {HEADERS} in env
      def response_headers? = @response_headers

      # (see LogFormat::Common#line)
      def line(env, status, bytes, seconds)
        entry = Entry.new(env, status, bytes, seconds)
        out = +""
        @parts.each { |part| out << (part.is_a?(String) ? part : part.call(entry)) }
        out << "\n"
      end

      private

      def add(name, letter)
        return @parts << "%" if letter == "%" && name.nil?

        find = self.class.field(name, letter).find
        bare = @parts.grep(String).join.count('"').even? && !SPACED.include?(letter)
        @parts << lambda do |entry|
          value = LogFormat.escape(find.call(entry))
          bare && value.include?(" ") ? value.tr(" ", "+") : value
        end
      end

      # One JSON object a line: `json:time=%{%FT%T%z}t,status=%s,id=%L`. Numbers are numbers, and
      # what a request lacks is null.
      class JSONFields
        # @param text [String] name=directive, and commas between
        # @raise [ArgumentError]
        def initialize(text)
          @response_headers = text.match?(/%[<>]?\{[^}]*\}o/)
          @fields = text.split(/,(?=[^{}]*(?:\{|\z))/).to_h do |pair|
            name, directive = pair.strip.split("=", 2)
            match = /\A#{DIRECTIVE}\z/o.match(directive.to_s)
            raise ArgumentError, "#{pair.inspect}: write name=%directive" if name.to_s.empty? || match.nil?

            [name, LogTemplate.field(match[1], match[2])]
          end
          raise ArgumentError, "json: has no fields" if @fields.empty?
        end

        # @return [Boolean] (see LogTemplate#response_headers?)
        def response_headers? = @response_headers

        # (see LogFormat::Common#line)
        def line(env, status, bytes, seconds)
          entry = Entry.new(env, status, bytes, seconds)
          "#{JSON.generate(@fields.transform_values { |field| value(field, entry) })}\n"
        end

        private

        # JSON is UTF-8; bytes that are not become U+FFFD.
        def value(field, entry)
          value = field.find.call(entry)
          field.number || value.nil? ? value : value.to_s.dup.force_encoding(Encoding::UTF_8).scrub
        end
      end

      # The layer that keeps a response's headers for the log.
      class ResponseHeaders
        # @param app [#call] a Rack app
        def initialize(app)
          @app = app
        end

        # @param env [Hash] of Rack
        # @return [Array]
        def call(env)
          response = @app.call(env)
          env[HEADERS] = response[1]
          response
        end
      end
    end
  end
end
