# frozen_string_literal: true

# Formats the access log's lines, by Apache's directives (mod_log_config) or as JSON. Escapes
# clients' text, so that it cannot forge a line or end a field.

require "json"

module Gyre
  module Web
    # Compiles a format into the method `line`, which interpolates one String. This takes a third of
    # the time that a call for each directive would take.
    class LogFormat
      # Names for --log-format; "none" writes nothing.
      NAMES = %w[none common combined json].freeze
      COMMON = '%h %l %u %t "%r" %>s %B'
      COMBINED = %(#{COMMON} "%{Referer}i" "%{User-Agent}i")
      # Key in env for the response's headers (%{name}o), see {ResponseHeaders}.
      HEADERS = "gyre.response_headers"

      DIRECTIVE = /%>?(?:\{([^}]*)\})?(.)?/m.freeze
      # Ruby code for each directive's value.
      TEXTS = {
        "h" => "LogFormat.client(env)", "l" => "nil", "u" => 'env["REMOTE_USER"]', "t" => "time", "r" => "request(env)",
        "m" => 'env["REQUEST_METHOD"]', "U" => 'env["REQUEST_URI"]&.partition("?")&.first', "q" => "query(env)",
        "H" => 'env["SERVER_PROTOCOL"]', "v" => 'env["SERVER_NAME"]', "p" => 'env["SERVER_PORT"]'
      }.freeze
      NUMBERS = { "s" => "status", "B" => "bytes", "b" => "(bytes unless bytes.zero?)", "D" => "(seconds * 1_000_000).round",
                  "Q" => '(env["gyre.proxy_s"]&.*(1_000_000))&.round',
                  "P" => "Process.pid" }.freeze
      # Code of text formats for values that need no escaping; it replaces that of TEXTS.
      AS_THEY_ARE = { "l" => "-", "t" => "\#{time}", "r" => "\#{request(env)}" }.freeze
      NAMED = { "i" => "env[LogFormat.key(%s)]", "o" => "response_header(env, %s)", "e" => "env[%s]", "t" => "Time.now.strftime(%s)" }.freeze
      JSON_FIELDS = {
        "time" => 'Time.now.utc.strftime("%Y-%m-%dT%H:%M:%S.%3NZ")', "remote" => TEXTS["h"], "user" => TEXTS["u"], "method" => TEXTS["m"],
        "host" => 'env["HTTP_HOST"]', "target" => 'env["REQUEST_URI"]', "protocol" => TEXTS["H"], "status" => "status",
        "bytes" => "bytes", "duration_s" => "seconds.round(6)", "referer" => 'env["HTTP_REFERER"]', "user_agent" => 'env["HTTP_USER_AGENT"]'
      }.freeze
      # Bytes to escape: quote, backslash, control bytes, bytes beyond ASCII.
      UNSAFE_ASCII = /["\\\x00-\x1f\x7f]/
      UNSAFE = /["\\\x00-\x1f\x7f-\xff]/n

      class << self
        # Takes one of {NAMES}, a text with directives (%h, %{User-Agent}i …), or "json:" followed
        # by name=directive pairs with commas between. Returns nil for "none". Raises ArgumentError.
        def named(name)
          case name.to_s
          when "none"     then nil
          when "common"   then new(text(COMMON))
          when "combined" then new(text(COMBINED))
          when "json"     then new(json(JSON_FIELDS))
          when /\Ajson:/  then new(json(fields($')))
          when /%/        then new(text(name.to_s))
          else
            raise ArgumentError, "must be #{NAMES.join(", ")}, or have directives like %h %r %s, not #{name.to_s[0, 80].inspect}"
          end
        end

        # Returns the valid format, or raises ArgumentError.
        def check(name)
          text = NAMES.find { |each| each == name.to_s.downcase } || name.to_s
          named(text)
          text
        end

        # Returns printable ASCII: quotes, backslashes and other bytes become \xHH; "-" if empty.
        def escape(text)
          text = text.to_s
          return "-" if text.empty?
          return text if text.ascii_only? && !text.match?(UNSAFE_ASCII)

          text.b.gsub(UNSAFE) { |byte| format("\\x%02X", byte.ord) }
        end

        # Returns the client's address. Over a Unix socket this is the last address in
        # X-Forwarded-For (of a local proxy), or "unix:" if there is none.
        def client(env)
          address = env["REMOTE_ADDR"]
          return address unless address == ""

          forwarded = env["HTTP_X_FORWARDED_FOR"].to_s.rpartition(",").last.strip
          forwarded.empty? ? "unix:" : forwarded
        end

        # Returns a request header's key in env.
        def key(name)
          key = name.upcase.tr("-", "_")
          %w[CONTENT_TYPE CONTENT_LENGTH].include?(key) ? key : "HTTP_#{key}"
        end

        private

        def text(format)
          raise ArgumentError, "a format of the access log is one line" if format.match?(/[\r\n]/)

          code = +""
          rest = format
          until rest.empty?
            before, match, rest = rest.partition(DIRECTIVE)
            code << before.dump[1..-2]
            code << interpolation($1, $2, quoted: format[0, format.size - rest.size].count('"').odd?) unless match.empty?
          end
          %("#{code}\\n")
        end

        def interpolation(name, letter, quoted:)
          return "%" if letter == "%" && name.nil?
          return AS_THEY_ARE[letter] if name.nil? && AS_THEY_ARE.key?(letter)

          code = code(name, letter)
          return "\#{#{code} || '-'}" if name.nil? && NUMBERS.key?(letter)

          "\#{#{quoted || letter == "t" ? "LogFormat.escape" : "bare"}(#{code})}"
        end

        def fields(format)
          fields = format.split(/,(?=[^{}]*(?:\{|\z))/).to_h do |pair|
            name, directive = pair.strip.split("=", 2)
            match = /\A#{DIRECTIVE}\z/o.match(directive.to_s)
            raise ArgumentError, "#{pair.inspect}: write name=%directive" if name.to_s.empty? || match.nil?

            [name, code(match[1], match[2])]
          end
          fields.empty? ? raise(ArgumentError, "json: has no fields") : fields
        end

        def json(fields) = %("\#{JSON.generate(#{fields.map { |name, code| "#{name.dump} => utf8(#{code})" }.join(", ")})}\\n")

        def code(name, letter)
          found = name ? NAMED[letter]&.%(name.dump) : TEXTS[letter] || NUMBERS[letter]
          found or raise ArgumentError, "%#{"{#{name}}" if name}#{letter} is not a directive of the access log; there are " \
                                        "#{[*TEXTS.keys, *NUMBERS.keys].map { |each| "%#{each}" }.join(" ")} %{name}i %{name}o %{key}e %{format}t %%"
        end
      end

      # `code`: a Ruby expression that uses env, status, bytes and seconds.
      def initialize(code)
        @response_headers = code.include?("response_header(")
        @second = @time = nil
        singleton_class.class_eval("def line(env, status, bytes, seconds) = #{code}", __FILE__, __LINE__)
      end

      # True if the format reads {HEADERS} from env.
      def response_headers? = @response_headers

      private

      # Escapes a text, and replaces its spaces, which would end an unquoted field.
      def bare(text)
        escaped = LogFormat.escape(text)
        escaped.include?(" ") ? escaped.tr(" ", "+") : escaped # tr makes its table and a String each time
      end

      # Formats the time only once a second: formatting it costs more than the rest of a line.
      def time
        second = Process.clock_gettime(Process::CLOCK_REALTIME, :second)
        return @time if second == @second

        @second = second
        @time = Time.at(second).strftime("[%d/%b/%Y:%H:%M:%S %z]")
      end

      def request(env) = "#{env["REQUEST_METHOD"] || "-"} #{LogFormat.escape(env["REQUEST_URI"])} #{env["SERVER_PROTOCOL"] || "-"}"

      def query(env) = env["QUERY_STRING"].to_s.empty? ? "" : "?#{env["QUERY_STRING"]}"

      def response_header(env, name)
        headers = env[HEADERS]
        value = headers[name.downcase] if headers.respond_to?(:[])
        value.is_a?(Array) ? value.join(", ") : value
      end

      # Replaces invalid bytes by U+FFFD, as JSON is UTF-8.
      def utf8(value) = value.is_a?(String) ? value.dup.force_encoding(Encoding::UTF_8).scrub : value

      # Rack middleware that keeps a response's headers in env, for the log.
      class ResponseHeaders
        def initialize(app)
          @app = app
        end

        def call(env)
          response = @app.call(env)
          env[HEADERS] = response[1]
          response
        end
      end
    end
  end
end
