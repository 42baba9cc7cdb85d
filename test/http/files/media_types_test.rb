# frozen_string_literal: true

# Media types by names: Gyre::HTTP::Files::MediaTypes.

require "test_helper"
require "gyre/http/files/media_types"

class HTTPMediaTypesTest < Minitest::Test
  Types = Gyre::HTTP::Files::MediaTypes

  def test_the_end_of_a_name_gives_the_type
    assert_equal "text/html; charset=utf-8", Types.of("a/index.html")
    assert_equal "text/javascript; charset=utf-8", Types.of("app-1a2b.min.js")
    assert_equal "image/svg+xml", Types.of("LOGO.SVG")
    assert_equal "font/woff2", Types.of("a.woff2")
  end

  def test_any_other_name_is_a_sequence_of_bytes
    ["a", "a.", "a.unknown", ".html", "a.html.bak"].each { |name| assert_same Types::UNKNOWN, Types.of(name) }
  end

  def test_text_json_and_drawings_are_worth_compressing
    %w[text/plain application/json application/ld+json image/svg+xml application/wasm].each { |type| assert Types.compressible?(type), type }
    ["image/png", "application/zip", "video/mp4", "font/woff2", "application/jsonx", nil, ""].each { |type| refute Types.compressible?(type) }
  end
end
