# frozen_string_literal: true

# `gyre compress`: compresses static files ahead of time, so that `gyre serve` sends them compressed
# without work for each request.

require "gyre/cli"
require "gyre/cli/flags"
require "gyre/http/files/precompress"

module Gyre
  module CLI
    class Compress < Command
      BANNER = <<~TEXT
        Writes app.js.gz beside app.js for all text-like files of 1 KB or more, which
        the setting `static` then sends to clients that accept it; also .br and .zst,
        if the gems brotli and zstd-ruby are installed. Skips files that are up to
        date.

        Usage: gyre compress [FOLDER ...]

        FOLDER is public by default.
      TEXT
      GEMS = %w[brotli zstd-ruby].freeze

      def flags = Flags.new(BANNER, help: ["-h", "--help"]) { |flags| flags.separator "Flags:" }

      def call(folders)
        GEMS.each do |name|
          require name
        rescue LoadError
          nil # that coding is left out
        end
        folders = ["public"] if folders.empty?
        missing = folders.find { |folder| !File.directory?(folder) }
        raise StartError, "#{missing} is not a folder: name the one that `static` has" if missing

        folders.each { |folder| @out.puts("#{folder}: #{HTTP::Files::Precompress.call(folder).size} compressed") }
        DONE
      rescue SystemCallError => error
        raise StartError, error.message
      end
    end
  end
end
