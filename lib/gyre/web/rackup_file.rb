# frozen_string_literal: true

# Makes the app from a file (config.ru, or a .rb file that defines it) with Rack::Builder. The rack gem is needed for
# this and for nothing else. Gyre::Web::CLI calls it; an app given as an object never comes here.

require "gyre/errors"

module Gyre
  module Web
    # The server cannot start; the message says what to do, in as many lines as it takes.
    class StartError < Error; end

    # Reads a rackup file.
    module RackupFile
      PATH = "config.ru"

      module_function

      # No middleware is added that the file does not name: what runs is what is written, in every environment.
      #
      # @param path [String]
      # @return [#call] the Rack app
      # @raise [StartError]
      def load(path)
        raise StartError, missing(path) unless File.file?(path)

        builder
        app = evaluate(path)
        return app if app.respond_to?(:call)

        raise StartError, "#{path} runs #{app.inspect[0, 100]}, which is no Rack app: it does not respond to call"
      end

      def builder
        require "rack" # all of it: Rack 2 needs its Server for that
      rescue LoadError => error
        raise unless error.path.to_s.start_with?("rack")

        raise StartError, "a rackup file is read by the rack gem, which is not installed. Run `gem install rack`, or put it " \
                         "into the Gemfile and start with `bundle exec`"
      end

      def evaluate(path)
        app = Rack::Builder.parse_file(path)
        app.is_a?(Array) ? app.first : app # Rack 2 gives options as well
      rescue SyntaxError => error
        raise StartError, error.message # begins with file and line
      rescue ScriptError, StandardError => error
        raise StartError, "#{path} raised while it was loaded:\n#{error.full_message(highlight: false, order: :top).chomp}"
      end

      def missing(path)
        return "there is no #{path}" unless path == PATH

        "there is no #{path} in #{Dir.pwd}. Name another file (gyre serve app.ru), or write one:\n" \
          "  run ->(env) { [200, { \"content-type\" => \"text/plain\" }, [\"hello\\n\"]] }"
      end
      private_class_method :builder, :evaluate, :missing
    end
  end
end
