# frozen_string_literal: true

# Loads the app from config.ru with Rack::Builder (gem rack), or from a .rb file. Called by Serve.

require "gyre/errors"
require "gyre/cluster/traces"

module Gyre
  module CLI
    module RackupFile
      PATH = "config.ru"
      # Backtrace lines of code that loads files: Rack's builder, and variants of require.
      LOADERS = %r{/rack/builder\.rb:|/(?:core_ext/)?kernel_require\.rb:|\A<internal:|/(?:bootsnap|bundled_gems|zeitwerk)[^:]*:}.freeze

      module_function

      # `path`: rackup file, .rb file that defines the app, or folder with config.ru. Adds no
      # middleware.
      def load(path)
        path = check(path)
        app = path.end_with?(".rb") ? constant(path) : rackup(path)
        return app if app.respond_to?(:call)

        raise StartError, "#{path} runs #{app.inspect[0, 100]}, which is not a Rack app: it does not respond to call"
      end

      # Finds mistakes before the file runs. Returns the file's path; raises StartError.
      def check(path)
        path = File.join(path, PATH) if File.directory?(path)
        raise StartError, missing(path) unless File.file?(path)

        builder unless path.end_with?(".rb")
        path
      end

      # Reads the file as UTF-8, like Ruby's sources. Rack::Builder.parse_file takes the locale's
      # encoding, which makes text binary in many containers.
      def rackup(path)
        raising_plainly(path) { Rack::Builder.new_from_string(File.read(path, encoding: "BOM|UTF-8").sub(/^__END__\n.*\z/m, ""), path) }
      end

      def builder
        require "rack" # all of it, as Rack 2 needs its Server there
      rescue LoadError => error
        raise unless error.path.to_s.start_with?("rack")

        raise StartError, "a rackup file is read by the rack gem, which is not installed. Run `gem install rack`, or put it " \
                         "into the Gemfile and start with `bundle exec`"
      end

      # Returns the constant that the file defines: my_app.rb defines MyApp (like rackup).
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
        raise unless error.message == "exit" # abort has printed its own message

        raise StartError, "#{path} has ended the program: exit with status #{error.status}, at #{own_trace(error).first || path}. " \
                         "So there is no app to serve; raise an error instead, or remove the exit"
      rescue ScriptError, StandardError => error
        raise StartError, "#{path}: #{error.message}" if own_trace(error).empty? # Rack itself cannot read the file

        Cluster::Traces.cut(error, __FILE__, LOADERS)
        raise StartError, "#{path} raised while it was loaded:\n#{error.full_message(highlight: false, order: :top).chomp}"
      end

      # Drops the lines of this file, its callers and loaders, which are the same for all apps.
      def own_trace(error) = Cluster::Traces.own(error, __FILE__, LOADERS)

      def missing(path)
        return "there is no file #{path}" unless File.basename(path) == PATH

        "there is no #{PATH} in #{File.expand_path(File.dirname(path))}. Name another file (gyre serve app.ru), or write one:\n" \
          "  run ->(env) { [200, { \"content-type\" => \"text/plain\" }, [\"hello\\n\"]] }"
      end
    end
  end
end
