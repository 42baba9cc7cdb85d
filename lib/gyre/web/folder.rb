# frozen_string_literal: true

# A folder of files in settings: `public`, or `public?at=/files&immutable`. Gyre::Web::Server makes
# a Gyre::HTTP::Files::Root of it. Does not access the disk.

require "gyre/settings"

module Gyre
  module Web
    # A path and options of HTTP::Files::Root.
    Folder = Struct.new(:path, :options) do
      def self.parse(value, **options)
        return value if value.is_a?(self)

        path, query = value.respond_to?(:to_path) ? value.to_path : (value.split("?", 2) if value.is_a?(String))
        raise ArgumentError, "must be a path, not #{Gyre::Settings.shown(value)}" if path.to_s.empty?

        pairs = query.to_s.split("&").to_h { |pair| pair.split("=", 2).then { |name, text| [name.tr("-", "_"), text || true] } }
        new(path, self::SETTINGS.read(pairs.merge(options)))
      end
    end

    row = Gyre::Settings.method(:row)
    Folder::SETTINGS = Gyre::Settings.new({ nil => [
      row[:at, :text, "URL path of the files", default: "/"],
      row[:index, :flag, "a path that ends with / is its index.html", default: false],
      row[:dot_files, :flag, "serve names that begin with a dot, too; /.well-known/ always is", default: false],
      row[:symlinks, :flag, "let symbolic links lead out of the folder", default: false],
      row[:precompressed, :flag, "send app.js.br, app.js.zst or app.js.gz beside app.js to clients that accept it", default: true],
      row[:immutable, :flag, "cache files with a digest in their names (app-1a2b3c4d.js) for a year", default: false],
      row[:cache_control, :text, "cache-control of all other files"]
    ] }, what: "option of a folder")
  end
end
