# frozen_string_literal: true

# One line of the access log for one request, in the formats that log readers expect.
# Gyre::Web::AccessLog calls it. Text in, text out: it opens no file, and no client can forge a line
# or end a field through it.

require "json"

module Gyre
  module Web
    # Formats by name; each has `line(env, status, bytes, seconds)`, a String with its newline.
    module LogFormat
      # Names for --log-format; "none" has no format.
      NAMES = %w[none common combined json].freeze

      # What may not stand between quotes as it is: quote, backslash and control bytes (and whatever
      # is not ASCII).
      UNSAFE_ASCII = /["\\\x00-\x1f\x7f]/
      UNSAFE = /["\\\x00-\x1f\x7f-\xff]/n
      private_constant :UNSAFE_ASCII, :UNSAFE

      # @param name [String, Symbol] one of {NAMES}; or fields of one's own: text with directives
      #   (%h, %{User-Agent}i …), or "json:" and name=directive, name=directive … (see LogTemplate)
      # @return [#line, nil] nil for "none"
      # @raise [ArgumentError] for another name
      def self.named(name)
        case name.to_s
        when "none"     then nil
        when "common"   then Common.new
        when "combined" then Combined.new
        when "json"     then JSONLines.new
        when /\Ajson:/  then LogTemplate::JSONFields.new(name.to_s.delete_prefix("json:"))
        when /%/         then LogTemplate.new(name.to_s)
        else
          raise ArgumentError, "must be #{NAMES.join(", ")}, or have directives like %h %r %s, not #{name.to_s[0, 80].inspect}"
        end
      end

      # @param name [String, Symbol] as {.named} takes it
      # @return [String] the same, in the case that {.named} takes
      # @raise [ArgumentError]
      def self.check(name)
        text = NAMES.find { |each| each == name.to_s.downcase } || name.to_s
        named(text)
        text
      end

      # @param text [String, nil]
      # @return [String] printable ASCII without a bare quote; other bytes as \xHH; "-" for nothing
      def self.escape(text)
        text = text.to_s
        return "-" if text.empty?
        return text if text.ascii_only? && !text.match?(UNSAFE_ASCII)

        text.b.gsub(UNSAFE) { |byte| format("\\x%02X", byte.ord) }
      end

      # Behind a Unix socket the peer is a proxy on this machine: the client is the one that it has
      # added to X-Forwarded-For, the last.
      #
      # @return [String] the client's address; "unix:" (as nginx has it) for a Unix socket without
      #   that header
      def self.client(env)
        address = env["REMOTE_ADDR"]
        return address unless address == ""

        forwarded = env["HTTP_X_FORWARDED_FOR"].to_s.rpartition(",").last.strip
        forwarded.empty? ? "unix:" : forwarded
      end

      # @return [String, nil] the request target as the client sent it; nil when its head was
      #   refused before that was read
      def self.target(env)
        uri = env["REQUEST_URI"]
        return uri if uri

        query = env["QUERY_STRING"].to_s
        path = "#{env["SCRIPT_NAME"]}#{env["PATH_INFO"]}"
        return if path.empty? && query.empty?

        query.empty? ? path : "#{path}?#{query}"
      end

      # The NCSA common log format: `host ident user [time] "request" status bytes`.
      class Common
        def initialize
          @second = nil
          @time = nil
        end

        # @param env [Hash] the Rack environment
        # @param status [Integer, nil] nil: the app has hijacked the connection
        # @param bytes [Integer] of body sent
        # @param _seconds [Float] from the head's arrival to the last byte sent
        # @return [String]
        def line(env, status, bytes, _seconds) = "#{fields(env, status, bytes)}\n"

        private

        def fields(env, status, bytes)
          "#{bare(LogFormat.client(env))} - #{bare(env["REMOTE_USER"])} [#{time}] " \
            "\"#{env["REQUEST_METHOD"] || "-"} #{LogFormat.escape(LogFormat.target(env))} #{env["SERVER_PROTOCOL"] || "-"}\" " \
            "#{status || "-"} #{bytes}"
        end

        # A space would end a field without quotes around it.
        def bare(text)
          escaped = LogFormat.escape(text)
          escaped.include?(" ") ? escaped.tr(" ", "+") : escaped # tr makes its table and a String each time
        end

        # Formatting a time costs more than all the rest of the line, and there is only one a
        # second.
        def time
          second = Process.clock_gettime(Process::CLOCK_REALTIME, :second)
          return @time if second == @second

          @second = second
          @time = Time.at(second).strftime("%d/%b/%Y:%H:%M:%S %z")
        end
      end

      # Common, and then what the client sends about itself: `"referer" "user agent"`.
      class Combined < Common
        # (see Common#line)
        def line(env, status, bytes, _seconds)
          "#{fields(env, status, bytes)} \"#{LogFormat.escape(env["HTTP_REFERER"])}\" " \
            "\"#{LogFormat.escape(env["HTTP_USER_AGENT"])}\"\n"
        end
      end

      # One JSON object a line, with the time in UTC and the duration.
      class JSONLines
        # (see Common#line)
        def line(env, status, bytes, seconds)
          "#{JSON.generate(
            time: Time.now.utc.strftime("%Y-%m-%dT%H:%M:%S.%3NZ"),
            remote: text(LogFormat.client(env)),
            user: text(env["REMOTE_USER"]),
            method: text(env["REQUEST_METHOD"]),
            host: text(env["HTTP_HOST"]),
            target: text(LogFormat.target(env)),
            protocol: text(env["SERVER_PROTOCOL"]),
            status: status,
            bytes: bytes,
            duration_s: seconds.round(6),
            referer: text(env["HTTP_REFERER"]),
            user_agent: text(env["HTTP_USER_AGENT"])
          )}\n"
        end

        private

        # JSON is UTF-8; bytes that are not become U+FFFD.
        def text(value) = value&.to_s&.dup&.force_encoding(Encoding::UTF_8)&.scrub
      end
    end
  end
end

require "gyre/web/log_template"
