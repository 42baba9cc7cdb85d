# frozen_string_literal: true

# Which C file of the extension calls which, by reading them: no compiler is needed. Asked by
# test/tidy_test.rb and `rake lint`.
module GyreTest
  # The calls of gyre_… functions between C files, and what they must not be.
  module CCalls
    ROOT = File.expand_path("../../ext/gyre", __dir__)
    # A folder calls and includes only lower ones; files beside the folders (gyre.c) stand above
    # all.
    FLOORS = { "loop" => 1, "fiber" => 2, "keyed" => 3, "async" => 3, "net" => 4, "http" => 5, "log" => 5, "memcached" => 5, "dns" => 5,
               "cli" => 5, "http/h1" => 6, "http/h2" => 6, "websocket" => 6, "." => 7 }.freeze
    # What everything may include: the answers about the platform, and what the parts declare to
    # each other.
    SHARED = %w[feature.h gyre.h].freeze
    DEFINITION = /^(?!static\b|return\b|else\b)[A-Za-z_][\w \t*]*?\b(gyre_\w+)\s*\([^;{}()]*(?:\([^()]*\)[^;{}()]*)*\)\s*\{/.freeze

    module_function

    def calls
      texts = files("c").to_h { |path| [path, code(path)] }
      homes = texts.flat_map { |path, text| text.scan(DEFINITION).flatten.map { |name| [name, path] } }.to_h
      texts.to_h do |path, text|
        others = text.scan(/\bgyre_\w+/).uniq.select { |name| homes.fetch(name, path) != path }
        [path, others.group_by { |name| homes.fetch(name) }]
      end
    end

    def upward
      called = calls.flat_map do |path, others|
        others.select { |other, _| higher?(path, other) }.map { |other, names| "#{path} calls #{names.join(", ")} of #{other}" }
      end
      called + files("{c,h}").flat_map do |path|
        included = code(path, strings: true).scan(/^\s*#\s*include\s+"([^"]+)"/).flatten - SHARED
        included.select { |other| higher?(path, other) }.map { |other| "#{path} includes #{other}" }
      end
    end

    # Returns the sets of files that call each other in a circle.
    def circles
      graph = calls.transform_values(&:keys)
      found = graph.keys.group_by { |path| reached(graph, path).select { |other| reached(graph, other).include?(path) }.sort }
      found.keys.reject(&:empty?)
    end

    def reached(graph, from)
      (@reached ||= {})[from] ||= begin
        seen, left = {}, graph.fetch(from).dup
        while (path = left.pop)
          left.concat(graph.fetch(path)) unless seen[path]
          seen[path] = true
        end
        seen.keys
      end
    end

    def higher?(path, other)
      from, to = File.dirname(path), File.dirname(other)
      from != to && FLOORS.fetch(to) >= FLOORS.fetch(from)
    end

    def files(kinds)
      Dir.glob("**/*.#{kinds}", base: ROOT).sort
    end

    # A file's text without comments, and without what stands in quotes.
    def code(path, strings: false)
      text = File.read(File.join(ROOT, path)).gsub(%r{/\*.*?\*/}m, "")
      strings ? text : text.gsub(/"(?:\\.|[^"\\\n])*"/, '""')
    end
  end
end
