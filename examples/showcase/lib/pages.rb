# frozen_string_literal: true

# The page's files: everything in public/, the guides, and the Ruby files of this folder and of the
# live pages under /source/, which the page shows. The list is made once, at the start, so that no
# request can name another file.

module Showcase
  # Answers with files. A body with `to_path` lets the server send the file without reading it into
  # Ruby.
  class Pages
    TYPES = {
      ".css" => "text/css; charset=utf-8",
      ".html" => "text/html; charset=utf-8",
      ".md" => "text/plain; charset=utf-8",
      ".js" => "text/javascript; charset=utf-8",
      ".rb" => "text/plain; charset=utf-8",
      ".svg" => "image/svg+xml"
    }.freeze

    PUBLIC = File.expand_path("../public", __dir__)
    GUIDES = File.expand_path("../../../docs", __dir__)
    LIVE = File.expand_path("../../live", __dir__)

    def initialize
      @files = { "/" => File.join(PUBLIC, "index.html") }
      Dir[File.join(PUBLIC, "*")].each { |file| @files["/#{File.basename(file)}"] = file }
      Dir[File.join(__dir__, "*.rb"), File.join(LIVE, "*.rb")].each { |file| @files["/source/#{File.basename(file)}"] = file }
      Dir[File.join(GUIDES, "*.md")].each { |file| @files["/guides/#{File.basename(file)}"] = file }
      @files.freeze
    end

    # Every path that this part answers.
    def paths
      @files.keys
    end

    def call(env)
      file = File.open(@files.fetch(env["PATH_INFO"]), "rb") # has each, to_path and close: a Rack body
      headers = {
        "content-type" => TYPES.fetch(File.extname(file.path)),
        "content-length" => file.size.to_s,
        "cache-control" => "no-cache",
        "content-security-policy" => "default-src 'self'", # the page needs nothing from elsewhere
        "x-content-type-options" => "nosniff"
      }
      [200, headers, file]
    end
  end
end
