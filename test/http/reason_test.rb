# frozen_string_literal: true

require "test_helper"
require "gyre/http/reason"

class HTTP1ReasonTest < Minitest::Test
  def test_phrases_are_plain_words
    Gyre::HTTP::REASONS.each do |status, phrase|
      assert_includes 100..599, status
      assert_match(/\A[A-Z][A-Za-z -]+\z/, phrase)
    end
  end

  def test_every_status_that_the_server_itself_sends_has_one
    assert_empty [100, 101, 103, 400, 408, 413, 414, 417, 431, 500, 501, 503, 505] - Gyre::HTTP::REASONS.keys
  end
end
