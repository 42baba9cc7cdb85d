# frozen_string_literal: true

# The cases of the Autobahn test suite, sections 12 and 13, as a table: offers of
# permessage-deflate, and messages of one size, whole or in fragments, which a server echoes. The
# suite's files are not here; others of their kinds stand in for them. No test itself.

require "json"

module GyreTest
  # The table.
  module AutobahnCompressionCases
    # Sends `count` messages of `size` bytes of the data, one after the other.
    Case = Struct.new(:name, :offer, :opcode, :data, :size, :count, :fragment)

    # Sizes of messages and of fragments; 0: whole.
    SIZES = [16, 64, 256, 1024, 4096, 8192, 16_384, 32_768, 65_536, 131_072].map { |size| [size, 0] } +
            [8192, 16_384, 32_768, 65_536, 131_072].map { |size| [size, 256] } + [1024, 4096, 32_768].map { |fragment| [131_072, fragment] }
    # The suite sends a thousand messages of each size; here are fewer of the long ones.
    COUNTS = 2..100
    BYTES = 40_000

    random = Random.new(1)
    words = %w[Habe nun ach Philosophie Juristerei und Medizin leider auch Theologie durchaus studiert mit Bemuehn]
    text = Array.new(3000) { words.sample(random: random) }.join(" ").b
    picture = Array.new(64) { |row| Array.new(4096) { |column| (row + column / 16 + random.rand(3)) & 255 }.pack("C*") }.join
    json = JSON.generate(Array.new(2000) { |id| { id: id, name: words.sample(random: random), price: random.rand(1000) / 100.0, tags: %w[a b] } })
    html = "<table>#{Array.new(2000) { |row| "<tr class=\"row\"><td>#{row}</td><td>#{words[row % words.size]}</td></tr>" }.join("\n")}</table>"
    DATA = { json: [:text, json], html: [:text, html], text: [:binary, text], picture: [:binary, picture],
             packed: [:binary, random.bytes(140_000)] }.freeze

    DEFAULT = "permessage-deflate; client_no_context_takeover; client_max_window_bits"
    OFFERS = [DEFAULT, "server_no_context_takeover", "server_max_window_bits=9", "server_max_window_bits=15",
              "server_no_context_takeover; server_max_window_bits=9", "server_no_context_takeover; server_max_window_bits=15"]
             .map { |offer| offer == DEFAULT ? offer : "#{DEFAULT}; #{offer}" }
    OFFERS << [OFFERS[4], OFFERS[1], OFFERS[0]].join(", ")

    def self.cases(section, offer, kind)
      opcode, data = DATA.fetch(kind)
      SIZES.each_with_index.map do |(size, fragment), index|
        Case.new("#{section}.#{index + 1}", offer, opcode, data.b * (size / data.bytesize + 2), size, (BYTES / size).clamp(COUNTS), fragment)
      end
    end

    ALL = (DATA.keys.each_with_index.flat_map { |kind, index| cases("12.#{index + 1}", DEFAULT, kind) } +
           OFFERS.each_with_index.flat_map { |offer, index| cases("13.#{index + 1}", offer, :json) }).freeze
  end
end
