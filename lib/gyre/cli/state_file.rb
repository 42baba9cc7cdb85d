# frozen_string_literal: true

# The file by which `gyre ctl` and `gyre top` find a server: its process, its addresses, its control
# socket. JSON, for its owner only. The commands that serve write it and remove it at their end.

require "fileutils"
require "json"
require "gyre/cli/errors"
require "gyre/net/endpoint"

module Gyre
  module CLI
    # One state file.
    class StateFile
      # Where it is looked for when none is named.
      PATH = "tmp/gyre.state"
      MODE = 0o600

      # @return [String]
      attr_reader :path

      # @param path [String]
      def initialize(path)
        @path = File.expand_path(path)
      end

      # The one at {PATH}, where the commands look; its folder is made.
      #
      # @return [StateFile]
      # @raise [StartError] others could replace it
      # @raise [SystemCallError] the folder cannot be made
      def self.usual
        new(PATH).tap do |file|
          folder = File.dirname(file.path)
          FileUtils.mkdir_p(folder)
          raise StartError, "any user may write in #{folder}" if File.world_writable?(folder)
        end
      end

      # @return [String] the path of the control socket beside it
      def control = "#{@path}.sock"

      # @return [Endpoint] of the control socket
      # @raise [StartError] its path is too long
      def endpoint
        Endpoint.new(:unix, path: control, mode: MODE)
      rescue ArgumentError => error
        raise StartError, "--state: its control socket would be #{error.message}"
      end

      # @param pid [Integer]
      # @param urls [Array<String>]
      # @return [void]
      # @raise [StartError] it cannot be written
      def write(pid:, urls:)
        fresh = "#{@path}.#{Process.pid}"
        File.delete(fresh) if File.symlink?(fresh) || File.exist?(fresh)
        text = "#{JSON.generate(pid: pid, control: "unix://#{control}", urls: urls)}\n"
        File.write(fresh, text, mode: File::WRONLY | File::CREAT | File::EXCL, perm: MODE)
        File.rename(fresh, @path)
      rescue SystemCallError => error
        raise StartError, "#{@path}: the state cannot be written: #{error.class.new.message.downcase}"
      end

      # @return [Hash{String => Object}] pid, control, urls
      # @raise [StartError] there is none
      def read
        state = JSON.parse(File.read(@path))
        raise JSON::ParserError unless state.is_a?(Hash) && state["control"].is_a?(String)

        state
      rescue Errno::ENOENT
        raise StartError, "there is no #{@path}, which a server with workers writes (gyre serve -w). If it was started with another " \
                          "--state FILE, name that; gyre top also takes the address of --metrics, and one process needs no commands but signals"
      rescue JSON::ParserError # its message has the text of the file
        raise StartError, "#{@path} is not a state file. Name the file that the server was started with: --state FILE"
      rescue SystemCallError => error
        raise StartError, "#{@path}: the state cannot be read: #{error.class.new.message.downcase}"
      end

      # Removes it, unless it is another server's by now.
      # @return [void]
      def remove
        File.delete(@path) if File.exist?(@path) && read["pid"] == Process.pid
      rescue SystemCallError, StartError
        nil # another process removed it, or this one may not
      end
    end
  end
end
