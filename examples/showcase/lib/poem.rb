# frozen_string_literal: true

# A text that is sent while it is being made, line by line: here the making is a file and some
# patience. The body is an Enumerator: it has `each`, and every string that it gives leaves the
# server at once.

module Showcase
  # Recites the poem that the word "gyre" is known from.
  class Poem
    TEXT = File.expand_path("../jabberwocky.txt", __dir__)
    PAUSE_S = 0.2

    def call(env)
      lines = Enumerator.new do |body|
        File.foreach(TEXT, encoding: "UTF-8") do |line|
          body << line
          sleep PAUSE_S # only this fiber waits; all others are served meanwhile
        end
        env["rack.logger"]&.info("the poem was sent to its end")
      end
      [200, { "content-type" => "text/plain; charset=utf-8", "cache-control" => "no-store" }, lines]
    end
  end
end
