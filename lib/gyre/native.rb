# frozen_string_literal: true

# Loads the C extension, once. Called by Gyre::Loop to choose the engine, and by parts in C; only
# this file requires gyre_ext. Without the extension the portable engine works instead.
# GYRE_BACKEND=select does not even load this file.
require "rbconfig"

module Gyre
  module Native
    class << self
      # The first call tries to load it.
      def available?
        @available = load_extension unless defined?(@available)
        @available
      end

      def load_error
        available?
        @load_error
      end

      # Candidate paths: a checkout keeps an extension for each Ruby, an installed gem just one.
      def features
        ["gyre/#{RUBY_ENGINE}-#{RbConfig::CONFIG["ruby_version"]}/gyre_ext", "gyre/gyre_ext"]
      end

      private

      def load_extension
        require existing_feature
        true
      rescue LoadError => error
        @load_error = error
        false
      end

      # Takes the first existing candidate: a file that does not load raises its own error.
      def existing_feature
        library = File.expand_path("..", __dir__)
        features.find { |feature| File.exist?(File.join(library, "#{feature}.#{RbConfig::CONFIG["DLEXT"]}")) } || features.last
      end
    end
  end
end
