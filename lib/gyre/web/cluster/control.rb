# frozen_string_literal: true

# The Rack app behind the control socket of a server: what `gyre ctl` asks and commands. Its status
# and metrics are Gyre::Web::Control's; each command is a POST and ends when what it commands is
# done. Only the owner of the socket's file can reach it.

require "json"

module Gyre
  module Web
    module Cluster
      # See the head of this file.
      class Control
        HEADERS = { "content-type" => "application/json" }.freeze
        private_constant :HEADERS

        # @param commands [Hash{String => #call}] by their path; each returns nil, or why it was not
        #   done
        # @param status [#call] returns the status as a Hash
        # @param others [#call, nil] a Rack app for other requests
        def initialize(commands, status, others: nil)
          @commands = commands
          @status = status
          @others = others
        end

        # @param env [Hash] of Rack
        # @return [Array]
        def call(env)
          path = env["PATH_INFO"]
          return respond(200, @status.call) if path == "/status"
          return @others ? @others.call(env) : respond(404, error: "there is no #{path}") unless (command = @commands[path])
          return respond(405, error: "#{path} is a POST") unless env["REQUEST_METHOD"] == "POST"

          reason = command.call
          reason ? respond(409, error: reason) : respond(200, done: true)
        end

        private

        def respond(status, hash) = [status, HEADERS.dup, ["#{JSON.generate(hash)}\n"]]
      end
    end
  end
end
