# frozen_string_literal: true

# What tests of Action Cable on the server's sockets share: a client, and a server of an app. No
# test itself.

require "json"
require "gyre/websocket"
require "net/http"
require "web/serving"
require_relative "bundled"

module GyreTest
  # For test classes.
  module Cables
    include Serving
    include Bundled

    # The beginning of an app's config.ru.
    BEGINNING = <<~'RUBY'
      require "logger"
      require "rails"
      require "gyre"
      require "action_controller/railtie"
      require "action_cable/engine"
      class CableApp < Rails::Application
        config.eager_load = true
        config.secret_key_base = "0" * 64
        config.hosts.clear
        config.logger = Logger.new($stderr)
        config.log_level = ENV.fetch("LEVEL", "error").to_sym
        config.action_cable.disable_request_forgery_protection = true
        config.action_cable.mount_path = "/cable"
        config.gyre.cable = ENV["CABLE"] if ENV["CABLE"]
        config.gyre.cable_compression = true if ENV["COMPRESSION"]
      end
      module ApplicationCable
        Connection = Class.new(ActionCable::Connection::Base)
        Channel = Class.new(ActionCable::Channel::Base)
      end
    RUBY

    # One cable of a client.
    class Cable
      def initialize(test, url, user)
        @test = test
        @socket = Gyre::WebSocket.connect("#{url.sub("http", "ws")}/cable?user=#{user}", protocols: %w[actioncable-v1-json])
      end

      attr_reader :socket

      def send(command, channel = {}, **data)
        identifier = JSON.generate(channel.is_a?(Hash) ? channel : { channel: channel })
        @socket.write(JSON.generate({ command: command, identifier: identifier, **(data.empty? ? {} : { data: JSON.generate(data) }) }))
        self
      end

      # Returns the next message except pings; nil at the end.
      def read
        while (text = @socket.read)
          message = JSON.parse(text)
          return message unless message["type"] == "ping"
        end
      end

      def subscribed(channel)
        send("subscribe", channel)
        @test.assert_equal "confirm_subscription", read["type"]
        self
      end
    end

    def bundle = RUBY_VERSION < "3.2" ? "rails71" : super

    def serving(*options, app: self.class::APP, env: {}, output: +"")
      Dir.mktmpdir do |folder|
        File.write("#{folder}/config.ru", app)
        command = [RbConfig.ruby, Helpers::EXE, "serve", "-b", "tcp://127.0.0.1:0", *options]
        with_subprocess(bundled("RACK_ENV" => "production", **env), *command, chdir: folder) do |pid, out, err|
          program = Program.new(self, pid, out, err, folder)
          program.expect(/Use Ctrl-C to stop/)
          yield program.urls.first, program
          program.signal(:TERM)
          assert_equal 0, program.status.exitstatus, program.text(:err)
          output << program.text(:out) << program.text(:err)
        end
      end
    end

    def enter(url, user, first = "welcome")
      cable = Cable.new(self, url, user)
      assert_equal first, cable.read["type"] if first
      cable
    end

    def get(url, path) = Net::HTTP.get_response(URI("#{url}#{path}"))
  end
end
