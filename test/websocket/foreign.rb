# frozen_string_literal: true

# What clients of others talk to, and what they have to find (clients_test.rb, python_test.rb). No
# test itself.

require "gyre/broadcast"
require "json"
require "websocket/serving"

module GyreTest
  # For test classes.
  module ForeignWebSockets
    include WebSocketServing

    # Of each path: how the socket is opened, and what is done with it.
    # A client of /burst gets messages of many sizes in one turn, and then its disconnection.
    OPTIONS = { "/deflate" => { compress: true }, "/takeover" => { compress: :takeover } }.freeze

    # What a client prints as JSON, given the address.
    FOUND = { "echo" => ["häh", "", [0, 255], 1_000_000], "deflate" => [true, 20_000, 20], "takeover" => [true, 20_000, 20],
              "fragments" => "onetwothree", "ping" => "pong", "pinged" => "0.0", "closed" => [3000, "bye"], "protocol" => "b",
              "burst" => [2000, true, 1008],
              "refused" => 403 }.freeze

    FOLDER = File.join(GyreTest::Helpers::ROOT, "tmp", "node-ws")

    # Returns a command that runs node with its ws.
    def node_ws
      node = need_program("node")
      skip "node's ws is missing: bin/setup installs it by npm" unless File.directory?(FOLDER)
      [{ "NODE_PATH" => "#{FOLDER}/node_modules", "LD_PRELOAD" => nil }, node]
    end

    def foreign_app(codes)
      lambda do |env|
        path = env["PATH_INFO"]
        Gyre::WebSocket.open(env, protocols: %w[b a], **OPTIONS.fetch(path, {})) do |socket|
          case path
          when "/close" then socket.close(3000, "bye")
          when "/burst" then burst(socket)
          when "/ping" then socket.write(socket.ping(timeout: 30).floor(1).clamp(0, 0).to_f.to_s)
          else socket.each { |message| socket.write(message) }
          end
          codes << socket.code if path == "/code"
        end
      end
    end

    def burst(socket)
      topic = "burst#{socket.object_id}"
      Gyre::Broadcast.subscribe(topic, socket, as: topic)
      2000.times { |number| Gyre::Broadcast.publish(topic, "#{number} ".ljust(number * 3, "x")) }
      Gyre::Broadcast.disconnect(topic)
      socket.read
    end

    # Runs a client's program with the address of a server.
    def assert_client_finds(*command)
      codes = Thread::Queue.new
      serve(foreign_app(codes)) do |served|
        output = run_program(*command, "#{tls? ? "wss" : "ws"}://127.0.0.1:#{served.port}")
        assert_predicate output.status, :success?, output.err
        found = JSON.parse(output.out)
        FOUND.each { |name, expected| assert_equal expected, found[name], name }
        assert_equal 4001, codes.pop
      end
    end
  end
end
