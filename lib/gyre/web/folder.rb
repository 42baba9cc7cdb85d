# frozen_string_literal: true

# A folder of files as it is written on a command line or in the configuration file: `public`, or
# `public?at=/files&immutable`. Settings and Config read it, Gyre::Web::Server makes a
# Gyre::HTTP::Files::Root of it. It looks at no disk.

require "gyre/net/values"

module Gyre
  module Web
    # A folder and what of it clients may have.
    class Folder
      # The options of {HTTP::Files::Root} and the type of each.
      OPTIONS = { at: :text, index: :flag, dot_files: :flag, symlinks: :flag, precompressed: :flag, immutable: :flag,
                  cache_control: :text }.freeze

      # @return [String] as it was written
      attr_reader :path
      # @return [Hash{Symbol => Object}] those of OPTIONS that are set
      attr_reader :options

      # @param value [String, Folder] a path, perhaps with options behind a question mark
      # @param options [Hash] more of them
      # @return [Folder]
      # @raise [ArgumentError]
      def self.parse(value, **options)
        return value if value.is_a?(Folder)

        path, query = Values.text(value).split("?", 2)
        new(path, query.to_s.split("&").to_h { |pair| option(*pair.split("=", 2)) }.merge(options))
      end

      # @param name [String]
      # @param text [String, nil] without one it is true
      # @return [Array(Symbol, Object)]
      def self.option(name, text = nil)
        value = { nil => true, "true" => true, "false" => false }.fetch(text, text)
        [name.tr("-", "_").to_sym, value]
      end
      private_class_method :option, :new

      def initialize(path, options)
        @path = path
        @options = options.to_h do |name, value|
          type = OPTIONS.fetch(name) { raise ArgumentError, "#{name} is no option of a folder; there are: #{OPTIONS.keys.join(", ")}" }
          value = Values.check(type, value, name: name)
          Values.expect("a URL path, which begins with /", value, name: name) if name == :at && !value.match?(%r{\A/[^?#]*\z})
          [name, value]
        end
        freeze
      end

      # @param other [Object]
      # @return [Boolean]
      def ==(other)
        other.is_a?(Folder) && path == other.path && options == other.options
      end
    end
  end
end
