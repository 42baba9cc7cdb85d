# frozen_string_literal: true

# Compresses the files of a folder ahead of time, as Root sends them: app.js.gz beside app.js.
# Called by `gyre compress` and, in Rails, by assets:precompile. Serves nothing.

require "gyre/http/compressors"
require "gyre/http/files/root"
require "gyre/whole_file"

module Gyre
  module HTTP
    module Files
      module Precompress
        MINIMUM_BYTES = 1024
        # Each coding at its smallest result; Compressors' levels are for responses on the way.
        CODERS = {
          "gzip" => ->(text) { Zlib::Deflate.new(Zlib::BEST_COMPRESSION, Zlib::MAX_WBITS + 16).deflate(text, Zlib::FINISH) },
          "br" => ->(text) { ::Brotli.deflate(text, quality: 11) },
          "zstd" => ->(text) { ::Zstd.compress(text, level: 19) }
        }.freeze

        module_function

        # Writes a file for each coding, unless an up-to-date one exists or it would not be smaller.
        # Follows no symbolic links. Returns the paths of the files that it compressed. Raises
        # SystemCallError.
        def call(folder, codings: Compressors.available.keys)
          sources(folder).select do |path|
            missing = codings.map { |coding| [coding, "#{path}#{Root::EXTENSIONS[coding]}"] }.reject { |_, coded| fresh?(coded, path) }
            text = File.binread(path) if missing.any?
            missing.count do |coding, coded|
              bytes = CODERS.fetch(coding).call(text)
              write(coded, bytes, File.stat(path)) if bytes.bytesize < text.bytesize || File.exist?(coded)
            end.positive?
          end
        end

        def sources(folder)
          Dir.glob("**/*", base: folder).map { |name| File.join(folder, name) }.select do |path|
            stat = File.lstat(path)
            stat.file? && stat.size >= MINIMUM_BYTES && MediaTypes.compressible?(MediaTypes.of(path))
          end
        end

        def fresh?(coded, path) = File.exist?(coded) && File.mtime(coded) >= File.mtime(path)

        # Gives the file the source's permissions and time. Returns true.
        def write(path, bytes, source)
          WholeFile.replace(path, bytes, perm: source.mode & 0o777)
          File.utime(source.atime, source.mtime, path)
          true
        end

        private_class_method :sources, :fresh?, :write
      end
    end
  end
end
