# frozen_string_literal: true

# Rack middleware for the setting `static`: sends requested files; other requests go to the app.

require "gyre/http/files/respond"
require "gyre/http/files/root"

module Gyre
  module HTTP
    # Sends files of one or several folders.
    #
    #   use Gyre::HTTP::Static, "public", immutable: true
    class Static
      # @param app [#call] a Rack app
      # @param roots [String, Files::Root, Array<Files::Root>] the first that has the file sends it
      # @param options (see Files::Root#initialize)
      # @raise [ArgumentError] a folder does not exist
      # @raise [ExtensionRequired] the C extension is missing
      def initialize(app, roots, **options)
        Loop.require_native("Gyre::HTTP::Static")
        @app = app
        @roots = Array(roots).map { |root| root.is_a?(Files::Root) ? root : Files::Root.new(root, **options) }
      end

      # @param env [Hash] a Rack env
      # @return [Array(Integer, Hash, #each)] response of a file or of the app
      def call(env)
        method = env["REQUEST_METHOD"]
        ((method == "GET" || method == "HEAD") && found(env)) || @app.call(env)
      end

      # @param path [String] percent-encoded (PATH_INFO)
      # @return [Boolean] whether there is such a file; false if only the disk could tell
      def file?(path) = @roots.any? { |root| (name = root.name(path)) && root.known?(name) }

      private

      def found(env)
        path = env["PATH_INFO"]
        now_s = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        @roots.each do |root|
          name = root.name(path) or next
          response = root.find(name, env["HTTP_ACCEPT_ENCODING"], now_s) { |variant, file| respond(env, variant, file) }
          return response if response
        end
        nil
      end

      def respond(env, variant, file)
        taken = nil
        Files::Respond.call(env, variant.headers.dup, variant.size, variant.content) { taken = file }
      ensure
        file&.close unless taken
      end
    end
  end
end
