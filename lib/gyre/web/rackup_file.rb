# frozen_string_literal: true

# Makes the app from a file: config.ru with Rack::Builder, or a .rb file that defines it. The rack
# gem is needed for the former and for nothing else. Gyre::CLI::Serve calls it; an app given as an
# object never comes here.

require "gyre/cli/errors"
require "gyre/web/traces"

module Gyre
  module Web
    # Reads a rackup file.
    module RackupFile
      PATH = "config.ru"
      # Lines of a trace that are about reading a file: Rack's builder, and require in its several
      # shapes.
      LOADERS = %r{/rack/builder\.rb:|/(?:core_ext/)?kernel_require\.rb:|\A<internal:|/(?:bootsnap|bundled_gems|zeitwerk)[^:]*:}.freeze
      private_constant :LOADERS

      module_function

      # No middleware is added that the file does not name: what runs is what is written, in every
      # environment.
      #
      # @param path [String] a rackup file, a Ruby file that defines the app, or a folder with a
      #   config.ru
      # @return [#call] the Rack app
      # @raise [StartError]
      def load(path)
        path = check(path)
        app = path.end_with?(".rb") ? constant(path) : rackup(path)
        return app if app.respond_to?(:call)

        raise StartError, "#{path} runs #{app.inspect[0, 100]}, which is no Rack app: it does not respond to call"
      end

      # Finds what can be wrong before the file runs.
      #
      # @param path [String] (see #load)
      # @return [String] the file
      # @raise [StartError]
      def check(path)
        path = File.join(path, PATH) if File.directory?(path)
        raise StartError, missing(path) unless File.file?(path)

        builder unless path.end_with?(".rb")
        path
      end

      def rackup(path)
        app = raising_plainly(path) { Rack::Builder.parse_file(path) }
        app.is_a?(Array) ? app.first : app # Rack 2 gives options as well
      end

      def builder
        require "rack" # all of it: Rack 2 needs its Server for that
      rescue LoadError => error
        raise unless error.path.to_s.start_with?("rack")

        raise StartError, "a rackup file is read by the rack gem, which is not installed. Run `gem install rack`, or put it " \
                         "into the Gemfile and start with `bundle exec`"
      end

      # As rackup has it: my_app.rb defines MyApp.
      def constant(path)
        name = File.basename(path, ".rb").split("_").map(&:capitalize).join
        raising_plainly(path) { require File.expand_path(path) }
        return Object.const_get(name) if name.match?(/\A[A-Z]\w*\z/) && Object.const_defined?(name)

        raise StartError, "#{path} does not define #{name}, the app that its name stands for. A file with `run` is a rackup " \
                         "file: give it a name that ends with .ru"
      end

      def raising_plainly(path)
        yield
      rescue SyntaxError => error
        raise StartError, error.message # begins with file and line
      rescue SystemExit => error
        raise unless error.message == "exit" # abort has printed its own

        raise StartError, "#{path} has ended the program: exit with status #{error.status}, at #{own_trace(error).first || path}. " \
                         "So there is no app to serve; raise an error instead, or leave the exit out"
      rescue ScriptError, StandardError => error
        raise StartError, "#{path}: #{error.message}" if own_trace(error).empty? # Rack itself cannot read the file

        Traces.cut(error, __FILE__, LOADERS)
        raise StartError, "#{path} raised while it was loaded:\n#{error.full_message(highlight: false, order: :top).chomp}"
      end

      # What stands below this file in the trace loads the app, and is the same for every app; so is
      # what reads a rackup file.
      def own_trace(error) = Traces.own(error, __FILE__, LOADERS)

      def missing(path)
        return "there is no file #{path}" unless File.basename(path) == PATH

        "there is no #{PATH} in #{File.expand_path(File.dirname(path))}. Name another file (gyre serve app.ru), or write one:\n" \
          "  run ->(env) { [200, { \"content-type\" => \"text/plain\" }, [\"hello\\n\"]] }"
      end
      private_class_method :rackup, :builder, :constant, :raising_plainly, :own_trace, :missing
    end
  end
end
