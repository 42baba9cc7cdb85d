# frozen_string_literal: true

# `gyre profile`: asks a server's control socket (ControlClient) where its processes spend their CPU
# time, and writes a file.

require "gyre/cli"
require "gyre/cli/control_client"
require "gyre/cli/flags"
require "gyre/cli/state_file"
require "gyre/cli/terminal/paint"
require "gyre/profile"

module Gyre
  module CLI
    class ProfileCommand < Command
      BANNER = <<~TEXT
        Samples for some seconds where a running server spends its CPU time, by stack
        and by route, in all workers together. Costs less than 1 % meanwhile.

        Usage: gyre profile [options] SECONDS

        The server is found by its state file. A server without workers has one if it
        was started with gyre serve --state FILE. Ruby 3.3 or newer.
      TEXT
      FORMATS = { "pprof" => ".pb.gz", "collapsed" => ".txt", "html" => ".html" }.freeze

      def initialize(**streams)
        super
        @state = StateFile::PATH
      end

      def flags
        Flags.new(BANNER, dash: ["-o"], help: ["-h", "--help"]) do |flags|
          flags.on("-S", "--state FILE", "the server's state file (#{StateFile::PATH})") { |value| @state = value }
          flags.on("-f", "--format FORMAT", FORMATS.keys, "pprof for go tool pprof, speedscope and others; collapsed stacks; " \
                                                          "or html, a flame graph (by the file's ending, else pprof)") { |value| @format = value }
          flags.on("-o", "--output FILE", "the file to write; - for standard output (a new name)") { |value| @path = value }
        end
      end

      def call(words)
        refuse_words(words.drop(1))
        raise UsageError, "SECONDS is missing" if words.empty?

        seconds = seconds(words.first)
        check_folder unless @path == "-"
        kind = @format || FORMATS.key(FORMATS.each_value.find { |ending| @path.to_s.end_with?(ending) }) || "pprof"
        answer = ControlClient.new(StateFile.new(@state).read.fetch("control")).profile(seconds)
        raise StartError, answer["error"] if answer["error"]

        write(answer, kind)
        answer["notes"].to_a.each { |note| @err.puts("gyre profile: #{Paint.harmless(note.to_s)}; its samples are missing") }
        DONE
      rescue SystemCallError, ControlClient::NoAnswer => error
        raise StartError, error.message
      end

      private

      # Finds a mistake before the time is spent.
      def check_folder
        folder = File.dirname(File.expand_path(@path || "profile"))
        raise StartError, "--output: there is no folder #{folder} that this user may write in. Name another file" unless File.writable?(folder)
      end

      def seconds(text)
        SECONDS.check(text)
      rescue ArgumentError => error
        raise UsageError, "SECONDS: #{error.message}"
      end

      def write(answer, kind)
        profile = read(answer["profile"])
        bytes = profile.public_send(kind)
        return @out.binmode.write(bytes) if @path == "-"

        path = @path || Time.now.strftime("profile-%Y%m%d-%H%M%S#{FORMATS.fetch(kind)}")
        File.binwrite(path, bytes)
        @out.puts("#{path}: #{format("%.2f", profile.cpu_s)} s of CPU time in #{profile.seconds.round(1)} s")
      end

      def read(hash)
        Profile.from(hash)
      rescue ArgumentError => error
        raise StartError, "the server's response is #{error.message}"
      end
    end
  end
end
