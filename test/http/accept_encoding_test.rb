# frozen_string_literal: true

# The choice of a content coding: Gyre::HTTP::AcceptEncoding.

require "test_helper"
require "gyre/http/accept_encoding"

class HTTPAcceptEncodingTest < Minitest::Test
  # What a client sends => what it gets of br, zstd and gzip, in this order.
  CHOICES = {
    nil => nil, "" => nil, "gzip" => "gzip", "gzip, deflate, br" => "br", "x-gzip" => "gzip", "GZIP;Q=1" => "gzip",
    "gzip;q=0" => nil, "gzip;q=0.5, br;q=0.4" => "gzip", "*" => "br", "*;q=0" => nil, "br;q=0, *" => "zstd",
    "identity" => nil, "identity;q=0" => nil, "gzip;q=0.2, identity;q=0.5" => nil, "gzip, identity" => "gzip",
    "gzip;q=x" => nil, "gzip;q=1.5" => nil, "gzip;q=-1" => nil, ",,;;,gzip" => "gzip", "compress, unknown" => nil,
    "gzip;level=1;q=0.5" => "gzip", "#{"a," * 600}gzip" => nil
  }.freeze

  def test_the_coding_that_the_client_prefers_is_chosen
    CHOICES.each do |header, coding|
      chosen = Gyre::HTTP::AcceptEncoding.choose(header, %w[br zstd gzip])
      coding ? assert_equal(coding, chosen, header) : assert_nil(chosen, header)
    end
  end

  def test_without_codings_there_is_none_to_choose
    assert_nil Gyre::HTTP::AcceptEncoding.choose("gzip", [])
  end
end
