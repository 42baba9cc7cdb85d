# frozen_string_literal: true

# Loads the web server, which serves a Rack app from a program. `gyre serve` does the same from the
# command line.

require "gyre/web/banner"
require "gyre/web/server"

module Gyre
  # Serves Rack apps.
  module Web
    # Serves a Rack app until INT or TERM.
    #
    #   Gyre::Web.serve(->(env) { [200, {}, ["hello\n"]] }, bind: "tcp://localhost:9292")
    # @param app [#call]
    # @param options (see Gyre::Web::Server#initialize)
    # @yield [Gyre::Web::Server] once it serves
    # @return [void]
    # @raise [SystemCallError, SocketError] when it cannot listen
    # @raise [ExtensionRequired] without the C extension
    def self.serve(app, **options, &block)
      Server.new(app, **options).run(&block)
    end
  end
end
