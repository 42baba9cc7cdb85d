# frozen_string_literal: true

# Media types by file extension, for Files::Root and Compression. Reads no file.

module Gyre
  module HTTP
    module Files
      # IANA's types for files of web pages.
      module MediaTypes
        # Type of other extensions. Files::Root adds x-content-type-options, which forbids guessing.
        UNKNOWN = "application/octet-stream"

        TEXT = {
          "html" => "text/html", "htm" => "text/html", "css" => "text/css", "csv" => "text/csv", "txt" => "text/plain",
          "text" => "text/plain", "md" => "text/markdown", "js" => "text/javascript", "mjs" => "text/javascript", "vtt" => "text/vtt",
          "ics" => "text/calendar", "xml" => "text/xml"
        }.transform_values { |type| "#{type}; charset=utf-8".freeze }.freeze

        TABLE = {
          "json" => "application/json", "map" => "application/json", "webmanifest" => "application/manifest+json",
          "jsonld" => "application/ld+json", "atom" => "application/atom+xml", "rss" => "application/rss+xml",
          "xhtml" => "application/xhtml+xml", "svg" => "image/svg+xml", "wasm" => "application/wasm", "pdf" => "application/pdf",
          "zip" => "application/zip", "gz" => "application/gzip", "zst" => "application/zstd", "tar" => "application/x-tar",
          "png" => "image/png", "jpg" => "image/jpeg", "jpeg" => "image/jpeg", "gif" => "image/gif", "webp" => "image/webp",
          "avif" => "image/avif", "jxl" => "image/jxl", "bmp" => "image/bmp", "ico" => "image/vnd.microsoft.icon",
          "woff" => "font/woff", "woff2" => "font/woff2", "ttf" => "font/ttf", "otf" => "font/otf",
          "mp3" => "audio/mpeg", "m4a" => "audio/mp4", "ogg" => "audio/ogg", "opus" => "audio/ogg", "wav" => "audio/wav",
          "flac" => "audio/flac", "aac" => "audio/aac", "mp4" => "video/mp4", "m4v" => "video/mp4", "webm" => "video/webm",
          "ogv" => "video/ogg", "mov" => "video/quicktime", "m3u8" => "application/vnd.apple.mpegurl", "ts" => "video/mp2t"
        }.merge(TEXT).freeze

        COMPRESSIBLE = %r{\A(?:text/|application/(?:[\w.-]+\+)?(?:json|xml|javascript|wasm)\b|image/svg\+xml|font/[ot]tf)}.freeze

        module_function

        def of(name)
          extension = File.extname(name)
          return UNKNOWN if extension.size < 2

          extension = extension[1..]
          TABLE[extension] || TABLE.fetch(extension.downcase, UNKNOWN)
        end

        def compressible?(type) = COMPRESSIBLE.match?(type.to_s)
      end
    end
  end
end
