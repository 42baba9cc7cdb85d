# frozen_string_literal: true

# Loads the web server for Ruby programs; the command `gyre serve` runs the same server.

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
    # @raise [SystemCallError, SocketError] it cannot listen
    # @raise [ExtensionRequired] the C extension is missing
    def self.serve(app, **options, &block) = Server.new(app, **options).run(&block)
  end
end
