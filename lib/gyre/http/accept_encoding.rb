# frozen_string_literal: true

# Chooses a content coding for a client (RFC 9110, section 12.5.3), for Files::Root and Compression.

module Gyre
  module HTTP
    module AcceptEncoding
      # Maximum bytes of accept-encoding. If the header is longer, the body stays uncompressed.
      BYTES_LIMIT = 1024
      ALIASES = { "x-gzip" => "gzip" }.freeze

      module_function

      # Returns a coding of `available` (in order of preference), or nil for an uncompressed body.
      def choose(header, available)
        return if header.nil? || available.empty? || header.bytesize > BYTES_LIMIT

        weights = parse(header)
        best = available.max_by.with_index { |coding, index| [weight(weights, coding), -index] }
        chosen = weight(weights, best)
        best if chosen.positive? && chosen >= weights.fetch("identity", 0)
      end

      def parse(header)
        header.split(",").each_with_object({}) do |part, weights|
          coding, *parameters = part.split(";").map(&:strip)
          next if coding.nil? || coding.empty?

          coding = coding.downcase
          weights[ALIASES.fetch(coding, coding)] = quality(parameters)
        end
      end

      # A malformed weight excludes the coding.
      def quality(parameters)
        text = parameters.find { |parameter| parameter.match?(/\Aq=/i) } or return 1.0
        text.match?(/\Aq=(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)\z/i) ? text[2..].to_f : 0.0
      end

      def weight(weights, coding) = weights.fetch(coding) { weights.fetch("*", 0.0) }
    end
  end
end
