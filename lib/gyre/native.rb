# frozen_string_literal: true

# Loads the C extension once, for Gyre::Loop and other parts in C. Only this file requires gyre_ext.
# If the extension is missing or GYRE_BACKEND is select, the portable engine is used.
require "rbconfig"

module Gyre
  module Native
    class << self
      # The first call tries to load the extension.
      def available?
        @available = load_extension unless defined?(@available)
        @available
      end

      def load_error
        available?
        @load_error
      end

      # A checkout has an extension for each Ruby, an installed gem has a single extension.
      def features = ["gyre/#{RUBY_ENGINE}-#{RbConfig::CONFIG["ruby_version"]}/gyre_ext", "gyre/gyre_ext"]

      private

      def load_extension
        require existing_feature
        true
      rescue LoadError => error
        @load_error = error
        false
      end

      # Returns the first candidate that exists. Requiring a broken file raises its own error.
      def existing_feature
        library = File.expand_path("..", __dir__)
        features.find { |feature| File.exist?(File.join(library, "#{feature}.#{RbConfig::CONFIG["DLEXT"]}")) } || features.last
      end
    end
  end
end
