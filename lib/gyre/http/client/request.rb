# frozen_string_literal: true

# One request of the client: method, target, headers, body. Builds queries, forms, JSON and
# multipart bodies. Sends nothing.

require "gyre/http/client/errors"
require "gyre/http/client/multipart"
require "json"
require "uri"

module Gyre
  module HTTP
    class Client
      class Request
        SAFE = %w[GET HEAD OPTIONS].freeze
        IDEMPOTENT = [*SAFE, "PUT", "DELETE", "TRACE"].freeze
        # Fields that describe the body.
        ABOUT_BODY = %w[content-type content-length content-encoding expect].freeze
        # Fields that another origin must not get.
        SECRET = %w[authorization cookie proxy-authorization].freeze
        # A range of encoded bytes could not be decoded.
        FOR_RANGE = { "accept-encoding" => "identity" }.freeze
        private_constant :SAFE, :IDEMPOTENT, :ABOUT_BODY, :FOR_RANGE

        attr_reader :method, :pool, :target, :body, :until_s
        # `connection`: set by Pool#take, cleared by Pool#give. `connecting`: true while Pool#take
        # connects.
        attr_accessor :fields, :connection, :connecting

        def initialize(method, pool, target, until_s, headers, body = nil)
          @method = method
          @pool = pool
          @target = target
          @until_s = until_s
          headers = FOR_RANGE.merge(headers) if headers&.key?("range")
          @fields = headers ? pool.fields.merge(headers).compact : pool.fields
          @body = body
          @connection = nil
          @connecting = false
        end

        # Returns a copy with further header fields.
        def with(fields) = dup.tap { |copy| copy.fields = { **@fields, **fields } }

        class << self
          def encode(name, pairs)
            flat(name, pairs).map { |words| words.compact.map { |word| URI.encode_www_form_component(word) }.join("=") }.join("&")
          end

          # Returns names and values as Rack reads them: {"a" => {"b" => [1]}} is a[b][] and 1.
          # `leaf` tells which Hashes are values.
          def flat(name, pairs, leaf = nil)
            raise ArgumentError, "#{name}: must be a Hash or pairs, not #{pairs.class}" unless pairs.respond_to?(:each)

            found = []
            pairs.each { |key, value| add(found, bytes(key), value, leaf) }
            found
          end

          # Returns the text's bytes in UTF-8, or in BINARY as they are. Both may be joined.
          def bytes(text)
            text = text.to_s
            ([Encoding::UTF_8, Encoding::BINARY].include?(text.encoding) ? text : text.encode(Encoding::UTF_8)).b
          end

          private

          def add(found, name, value, leaf)
            if value.is_a?(Array) then value.each { |element| add(found, name.end_with?("[]") ? name : "#{name}[]", element, leaf) }
            elsif value.is_a?(Hash) && !leaf&.call(value) then value.each { |key, element| add(found, "#{name}[#{bytes(key)}]", element, leaf) }
            else found << [name, value.is_a?(String) || value.is_a?(Symbol) || value.is_a?(Numeric) ? bytes(value) : value]
            end
          end
        end

        # Omits the query, as it may contain credentials.
        def url = "#{pool.origin.url}#{target[/\A[^?]*/]}"

        def whole_url = "#{pool.origin.url}#{target}"
        def name = [method, url]

        # A proxy gets the whole address.
        def sent_target = pool.origin.prefix ? "#{pool.origin.prefix}#{target.delete_prefix("*")}" : target

        # True if the request may be sent again even after a response.
        def safe? = SAFE.include?(method) && repeatable?

        def idempotent? = IDEMPOTENT.include?(method)
        def repeatable? = body.nil? || body.is_a?(String) || body.again

        def carry(body, json, form, multipart)
          raise ArgumentError, "body, json, form, multipart: a request has one of them" unless [body, json, form, multipart].compact.size == 1

          if form then typed("application/x-www-form-urlencoded", Request.encode(:form, form))
          elsif multipart then Multipart.new(multipart).then { |parts| typed(parts.content_type, parts) }
          elsif json.nil? then @body = body.is_a?(String) || body.is_a?(Stream) ? body : Stream.new(body)
          else typed("application/json", JSON.generate(json))
          end
          size = @body.size unless @body.is_a?(String)
          @fields = { **fields, "content-length" => size.to_s } if size && !fields.key?("content-length")
        end

        # Returns the body as a String, which replaces a body that comes in pieces.
        def gather
          @body = "".b.tap { |bytes| body.each { |piece| bytes << piece.b } } unless body.nil? || body.is_a?(String)
          body
        rescue SourceFailed => error
          raise error.cause
        end

        # Returns the request that follows a redirect to the origin of `pool` (RFC 9110, section
        # 15.4).
        def redirected(status, pool, target)
          get = status == 303 ? method != "HEAD" : [301, 302].include?(status) && method == "POST"
          left = get ? fields.except(*ABOUT_BODY) : fields
          left = left.except(*SECRET) unless pool.origin.url == self.pool.origin.url
          request = Request.new(get ? "GET" : method, pool, target, until_s, nil, get ? nil : body)
          request.fields = left.merge(pool.origin.fields)
          request
        end

        # True if the client has chosen the accept-encoding.
        def decodes?
          chosen = fields["accept-encoding"]
          !chosen.nil? && (chosen.equal?(pool.fields["accept-encoding"]) || chosen.equal?(FOR_RANGE["accept-encoding"]))
        end

        # Returns the connection, once: another thread gets nil.
        def release
          connection, @connection = @connection, nil
          connection
        end

        def inspect = "#<#{self.class} #{method} #{url}>"

        private

        def typed(type, body)
          @body = body
          @fields = { "content-type" => type, **fields }
        end
      end

      # A body that is sent in pieces, read from an IO or an object with each.
      class Stream
        PIECE_BYTES = 65_536
        private_constant :PIECE_BYTES

        def initialize(source)
          usable = source.respond_to?(:read) || source.respond_to?(:each)
          usable = false if source.respond_to?(:each_filename) # a Pathname reads its first bytes again and again
          raise ArgumentError, "body: must be a String, an IO or have each, not #{source.class}" unless usable

          @source = source
          @begun = false
          @start = source.pos if source.respond_to?(:pos) && size
        rescue SystemCallError
          nil # a pipe has no position
        end

        # Returns a regular file with offset and length; nil if the source is something else.
        def file
          return unless @source.respond_to?(:stat) && @start

          @begun = true
          [@source, @start, size]
        end

        # Returns the number of bytes; nil if unknown.
        def size
          return unless @source.respond_to?(:pos) && @source.respond_to?(:size)
          return if @source.respond_to?(:stat) && !@source.stat.file?

          @source.size&.-(@start || @source.pos)
        end

        # Rewinds the source; returns false if that is impossible.
        def again
          return true unless @begun

          if @start && @source.respond_to?(:seek) then @source.seek(@start)
          elsif @start == 0 && @source.respond_to?(:rewind) then @source.rewind
          else return false
          end
          true
        end

        def each
          own = @begun = true
          pieces do |piece|
            own = false
            yield piece
            own = true
          end
        rescue StandardError
          own ? raise(SourceFailed) : raise
        end

        private

        def pieces(&block)
          return @source.each(&block) unless @source.respond_to?(:read)

          while (piece = @source.read(PIECE_BYTES))
            yield piece
          end
        end
      end
    end
  end
end
