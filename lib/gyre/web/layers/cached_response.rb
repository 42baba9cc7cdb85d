# frozen_string_literal: true

# A response in the memory of Gyre::Web::Cache: whether a shared cache may store it, and which
# requests it answers (RFC 9111, sections 3 and 4). Knows neither other responses nor the app.

require "time"
require "gyre/clock"
require "gyre/http/files/respond"

module Gyre
  module Web
    class CachedResponse
      # Statuses whose responses may be stored. Those of errors of the app may not, even if they are
      # called public.
      STATUSES = [200, 203, 300, 301, 302, 307, 308, 404, 410].freeze
      # Fields of responses that are for one client, or for another layer.
      UNSTORABLE = %w[set-cookie transfer-encoding x-sendfile x-accel-redirect].freeze
      # Fields of one message, not of what it brings.
      OWN = %w[connection keep-alive proxy-authenticate proxy-authentication-info te trailer upgrade age x-request-id x-runtime].freeze
      REFUSALS = %w[no-store no-cache private].freeze
      # Directives that allow no stale response; s-maxage includes proxy-revalidate.
      STRICT = %w[must-revalidate proxy-revalidate s-maxage].freeze
      # Fields of a 304 that say nothing of the stored body.
      OF_BODY = %w[content-length content-encoding content-range content-type etag].freeze
      # Headers of requests that count as named by vary: apps build links from a proxy's headers,
      # even an untrusted proxy's, and turbo-rails renders a frame with another layout.
      ALWAYS = %w[HTTP_X_FORWARDED_HOST HTTP_X_FORWARDED_PROTO HTTP_X_FORWARDED_PORT HTTP_X_FORWARDED_SCHEME HTTP_X_FORWARDED_SSL HTTP_FORWARDED
                  HTTP_TURBO_FRAME].freeze
      DIRECTIVE = /([a-z0-9-]+)(?:="([^"]*)"|=([^\s,"]*))?/.freeze
      SECONDS_LIMIT = 1 << 31
      # Memory beside the bytes of body, fields and address.
      OVERHEAD_BYTES = 2500

      # Returns the directives of a cache-control field with their values; nil without a value. The
      # first of equal names counts.
      def self.directives(text)
        return {} unless text

        text.downcase.scan(DIRECTIVE).each_with_object({}) { |(name, quoted, token), found| found[name] = quoted || token unless found.key?(name) }
      end

      # Returns headers of an app with lower-case names, and one String each except for cookies.
      def self.fields(headers)
        fields = {}
        headers.each do |name, value|
          name = name.to_s.downcase
          fields[name] = name == "set-cookie" ? value : Array(value).map { |each| each.to_s.b }.join(", ").freeze unless value.nil?
        end
        fields
      end

      attr_reader :status
      attr_reader :vary # values of the request's headers on which it depends, by their keys in env
      attr_accessor :body

      # `env`: of the request, which began at `began_s`.
      def initialize(env, status, fields, began_s)
        @status = status
        @fields = fields
        @control = self.class.directives(fields["cache-control"])
        @names = fields["vary"].to_s.split(/[\s,]+/)
        @vary = [*ALWAYS, *@names.map { |name| "HTTP_#{name.upcase.tr("-", "_")}" }].to_h { |key| [key, env[key]] }
        @address_bytes = env["PATH_INFO"].bytesize + env["QUERY_STRING"].to_s.bytesize
        @date = HTTP::Files::Respond.date(fields["date"]) || Time.now
        @made_s = began_s - [fields["age"].to_i, (Time.now - @date).floor].max
        @lifetime_s = lifetime_s
      end

      # Only with an explicit lifetime, and only if the app names shared caches.
      def storable?
        STATUSES.include?(@status) && (@control.key?("public") || @control.key?("s-maxage")) && REFUSALS.none? { |name| @control.key?(name) } &&
          !@names.include?("*") && UNSTORABLE.none? { |name| @fields.key?(name) } && @fields.none? { |name, _| name.start_with?("rack.") } &&
          !@fields["content-type"].to_s.start_with?("text/event-stream") && age_s < @lifetime_s
      end

      # Completes it with its body. Returns self, or nil if the body is not whole.
      def complete(body)
        length = @fields["content-length"]
        return if length && length != body.bytesize.to_s

        @body = body.freeze
        @fields = @fields.except(*OWN, *self.class.directives(@fields["connection"]).keys).merge!("date" => @date.httpdate).freeze
        self
      end

      # Returns the response that a 304 with `fields` makes of this one (section 3.2). The
      # variant stays the same: layers within the cache, like Compression, do not see a 304.
      def freshened(env, fields, began_s)
        vary = [@fields["vary"], fields["vary"]].compact.join(", ")
        fields = @fields.except("date").merge(fields.except(*OF_BODY))
        fields["vary"] = vary unless vary.empty?
        self.class.new(env, @status, fields, began_s).tap { |response| response.body = @body }
      end

      # Whether it is for requests like this one (section 4.1).
      def variant?(env) = @vary.all? { |key, value| env[key] == value }

      # Whether it is fresh enough for a request with the directives `asked`.
      def answers?(env, asked)
        age_s = self.age_s
        left_s = @lifetime_s - age_s
        return false if asked.key?("no-cache") || (env["HTTP_RANGE"] && @fields.key?("content-encoding"))
        return false if asked.key?("max-age") && age_s >= seconds(asked["max-age"])
        return false if asked.key?("min-fresh") && left_s < seconds(asked["min-fresh"])

        return true if left_s.positive?

        asked.key?("max-stale") && STRICT.none? { |name| @control.key?(name) } && -left_s <= seconds(asked["max-stale"] || SECONDS_LIMIT)
      end

      # Returns conditions for the app, by their keys in env; empty if the app can only send the
      # response again.
      def conditions = { "HTTP_IF_NONE_MATCH" => @fields["etag"], "HTTP_IF_MODIFIED_SINCE" => @fields["last-modified"] }.compact

      def answer(env)
        fields = @fields.merge("age" => age_s.to_i.to_s)
        return HTTP::Files::Respond.call(env, fields, @body.bytesize, @body) if @status == 200

        [@status, fields, env["REQUEST_METHOD"] == "HEAD" ? [] : [@body]]
      end

      def bytes
        texts = [@fields, @vary].sum { |pairs| pairs.sum { |name, value| name.bytesize + value.to_s.bytesize } }
        @body.bytesize + texts + @address_bytes + OVERHEAD_BYTES
      end

      private

      def age_s = Clock.now - @made_s

      # Section 4.2.1.
      def lifetime_s
        given = %w[s-maxage max-age].find { |name| @control.key?(name) }
        return seconds(@control[given]) if given

        (HTTP::Files::Respond.date(@fields["expires"]) || @date) - @date
      end

      # Invalid values are 0.
      def seconds(text) = text.to_s.match?(/\A\d+\z/) ? [text.to_i, SECONDS_LIMIT].min : 0
    end
  end
end
