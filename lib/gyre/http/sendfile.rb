# frozen_string_literal: true

# Rack middleware for the setting `sendfile`: sends a file that the app names in X-Sendfile
# (Rack::Sendfile, Rails' send_file) or X-Accel-Redirect. Sends only files from the setting's
# folders.

require "gyre/http/files/respond"
require "gyre/http/files/root"

module Gyre
  module HTTP
    # The app authorizes the client; this class handles conditions and ranges.
    class Sendfile
      NAMES = %w[x-sendfile x-accel-redirect].freeze
      # Instructions of a proxy for Rack::Sendfile. They are removed, because a client could choose
      # the file by them (CVE-2025-61780).
      FORGED = %w[HTTP_X_SENDFILE_TYPE HTTP_X_ACCEL_MAPPING].freeze

      # `log.error` reports unsent files. Raises ExtensionRequired if the extension is missing.
      def initialize(app, roots, log:)
        Loop.require_native("Gyre::HTTP::Sendfile")
        @app = app
        @roots = Array(roots)
        @log = log
      end

      def call(env)
        FORGED.each { |name| env.delete(name) }
        status, headers, body = response = @app.call(env)
        return response unless headers.is_a?(Hash)

        header = headers.keys.find { |name| NAMES.include?(name.downcase) } or return response
        body.close if body.respond_to?(:close)
        deliver(env, status, headers, header)
      end

      private

      def deliver(env, status, headers, header)
        named = headers[header].to_s
        file = header.downcase == NAMES.first ? open_path(named) : open_url(named)
        return missing(env, header, named) unless file

        respond(env, status, headers.except(header), file)
      end

      def respond(env, status, headers, file)
        taken = nil
        headers = headers.transform_keys(&:downcase)
        headers.delete("content-length")
        headers.delete("transfer-encoding")
        headers["last-modified"] ||= Time.at(file.modified_ns / 1_000_000_000).utc.strftime("%a, %d %b %Y %H:%M:%S GMT")
        headers["etag"] ||= %("#{file.modified_ns.to_s(36)}-#{file.size.to_s(36)}")
        return whole(env, status, headers, file) { taken = file } unless status == 200 && %w[GET HEAD].include?(env["REQUEST_METHOD"])

        headers["accept-ranges"] = "bytes"
        Files::Respond.call(env, headers, file.size) { taken = file }
      ensure
        file.close unless taken
      end

      # Responds without conditions and ranges, which apply only to GET and HEAD with status 200.
      def whole(env, status, headers, file)
        headers["content-length"] = file.size.to_s
        [status, headers, env["REQUEST_METHOD"] == "HEAD" ? [] : Files::Body.new(yield)]
      end

      # Opens a path of the file system below a root's folder.
      def open_path(path)
        open do |root|
          folder = [root.path, root.real_path].find { |name| path.start_with?("#{name}/") }
          path.delete_prefix("#{folder}/") if folder
        end
      end

      # Opens a percent-encoded URL path below a root's prefix.
      def open_url(path) = open { |root| root.name(path.b) unless root.prefix.empty? }

      def open
        @roots.each do |root|
          name = yield root
          next if name.nil? || name.empty? || name.include?("\0") || name.split("/", -1).any? { |part| ["", ".", ".."].include?(part) }

          file = root.open(name)
          return file if file
        end
        nil
      end

      def missing(env, header, named)
        @log.error("#{env["REQUEST_METHOD"]} #{env["PATH_INFO"]}: #{header} names #{named.inspect[0, 200]}, which is not a file in the folders " \
                   "that the setting sendfile names")
        [404, { "content-type" => "text/plain" }, ["Not Found\n"]]
      end
    end
  end
end
