# frozen_string_literal: true

# A text that is sent while it is made, line by line, here from a file and with some patience. The
# body is an Enumerator: every string from its `each` leaves the server at once.

module Showcase
  # Recites the poem with the word "gyre".
  class Poem
    TEXT = File.expand_path("../jabberwocky.txt", __dir__)
    PAUSE_S = 0.2

    def call(env)
      lines = Enumerator.new do |body|
        File.foreach(TEXT, encoding: "UTF-8") do |line|
          body << line
          sleep PAUSE_S # only this fiber waits
        end
        env["rack.logger"]&.info("the poem was sent to its end")
      end
      [200, { "content-type" => "text/plain; charset=utf-8", "cache-control" => "no-store" }, lines]
    end
  end
end
