# frozen_string_literal: true

# The file that tells `gyre ctl`, `gyre top` and `gyre profile` a server's pid, addresses and
# control socket. Contains JSON; only its owner may read it. A server with workers, or with --state,
# writes and removes it.

require "fileutils"
require "json"
require "gyre/errors"
require "gyre/net/endpoint"
require "gyre/whole_file"

module Gyre
  module CLI
    class StateFile
      # Default path.
      PATH = "tmp/gyre.state"
      MODE = 0o600

      attr_reader :path

      def initialize(path)
        @path = File.expand_path(path)
      end

      # Returns the file at {PATH}; makes its folder. Raises StartError if others could replace it.
      def self.usual
        new(PATH).tap do |file|
          folder = File.dirname(file.path)
          FileUtils.mkdir_p(folder)
          raise StartError, "any user may write in #{folder}" if File.world_writable?(folder)
        end
      end

      def control = "#{@path}.sock"

      def endpoint
        Endpoint.new(:unix, path: control, mode: MODE)
      rescue ArgumentError => error
        raise StartError, "--state: its control socket would be #{error.message}"
      end

      def write(pid:, urls:)
        WholeFile.replace(@path, "#{JSON.generate(pid: pid, control: "unix://#{control}", urls: urls)}\n", perm: MODE)
      rescue SystemCallError => error
        raise StartError, "#{@path}: the state cannot be written: #{error.class.new.message.downcase}"
      end

      def read
        state = JSON.parse(File.read(@path))
        raise JSON::ParserError unless state.is_a?(Hash) && state["control"].is_a?(String)

        state
      rescue Errno::ENOENT
        raise StartError, "there is no #{@path}, which a server with workers writes (gyre serve -w) in the folder that it is started in. Run this " \
                          "command there, or name the file of its --state. A server without workers has one only by --state; gyre top " \
                          "also takes the address of --metrics"
      rescue JSON::ParserError # its message has the file's text
        raise StartError, "#{@path} is not a state file. Name the file that the server was started with: --state FILE"
      rescue SystemCallError => error
        raise StartError, "#{@path}: the state cannot be read: #{error.class.new.message.downcase}"
      end

      # Removes the file unless another server has replaced it.
      def remove
        File.delete(@path) if File.exist?(@path) && read["pid"] == Process.pid
      rescue SystemCallError, StartError
        nil # another process removed it, or this one may not
      end
    end
  end
end
