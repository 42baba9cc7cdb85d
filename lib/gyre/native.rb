# frozen_string_literal: true

# Loads the C extension, once. Asked by Gyre::Loop (which engine?) and by what has a part in C;
# nothing else requires gyre_ext. A missing extension is no error here: the portable engine does the
# work then. With GYRE_BACKEND=select this file is not loaded at all.
require "rbconfig"

module Gyre
  # The C extension, if there is one.
  module Native
    class << self
      # @return [Boolean] whether the extension is loaded; the first call tries to load it
      def available?
        @available = load_extension unless defined?(@available)
        @available
      end

      # @return [LoadError, nil] why it is not available
      def load_error
        available?
        @load_error
      end

      # Where the extension is looked for: a checkout keeps one for each Ruby, an installed gem just
      # one.
      # @return [Array<String>] what is given to `require`
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

      # A file that is there and does not load shall raise its own error, so only the first one that
      # exists is tried.
      def existing_feature
        library = File.expand_path("..", __dir__)
        features.find { |feature| File.exist?(File.join(library, "#{feature}.#{RbConfig::CONFIG["DLEXT"]}")) } || features.last
      end
    end
  end
end
