# frozen_string_literal: true

# First frames and their requests: Gyre::Log::Handshake.

require "test_helper"
require "gyre/log/server/handshake"

class LogHandshakeTest < Minitest::Test
  Handshake = Gyre::Log::Handshake

  def test_any_severity_requests_the_old_wire
    ["authentication", "", "info", "authentication2", "Authentication/2 tail"].each do |words|
      request = read("web", words)
      assert_equal [:analogger, "web", nil, "", "", "accepted\n"], [*request.to_a, request.response], words
    end
  end

  def test_further_words_request_more
    id = "0123456789ABCDEF0123456789abcdef"
    assert_equal [:records, "web", id.downcase, "", ""], read("web", "authentication/2 client=#{id}").to_a
    assert_equal [:tail, "web", nil, "", ""], read("web", "authentication/2 tail").to_a
    assert_equal [:status, "", nil, "", ""], read("", "authentication/2  status ").to_a
    assert_equal "accepted 2\n", read("", "authentication/2 status").response
  end

  def test_an_id_that_has_a_secret_needs_it
    identity, other = Gyre::Log::Identity.fresh, Gyre::Log::Identity.fresh
    words = "authentication/2 client=#{identity.client_id}"
    assert_equal [:records, identity.client_id], read("web", "#{words} secret=#{identity.secret}").to_a.values_at(0, 2)
    assert_equal :records, read("web", "#{words.upcase.sub("AUTHENTICATION/2 CLIENT", "authentication/2 client")} secret=#{identity.secret}").kind
    assert_equal :records, read("web", "#{words} secret=#{identity.secret} later=word x=").kind
    assert_equal " later=word x=", read("web", "#{words} secret=#{identity.secret} later=word x=").words
    [words, "#{words} secret=#{other.secret}", "authentication/2 client=#{"a" * 32} secret=#{other.secret}"].each do |wrong|
      assert_equal "the client id is another client's", read("web", wrong), wrong
    end
  end

  def test_unknown_words_are_wrong
    assert_equal "unknown protocol version 12", read("web", "authentication/12 tail")
    ["", " client=", " client=#{"g" * 32}", " client=#{"a" * 33}", " tail status"].each do |words|
      assert_equal "malformed authentication", read("web", "authentication/2#{words}"), words
    end
  end

  def test_it_waits_for_the_whole_frame_and_keeps_what_follows
    bytes = frame("web", "authentication", "key") + "more"
    handshake = Handshake.new("key")
    (0...bytes.bytesize - 4).each { |count| assert_nil handshake.read(bytes.byteslice(0, count)) }
    assert_equal "more", handshake.read(bytes).rest
  end

  def test_only_the_whole_key_opens
    handshake = Handshake.new("secret")
    ["", "s", "secre", "secret\0", "SECRET", "secretsecret"].each { |key| assert_equal :denied, handshake.read(frame("web", "authentication", key)) }
    assert_equal :analogger, handshake.read(frame("web", "authentication", "secret")).kind
    assert_equal :denied, Handshake.new(nil).read(frame("web", "authentication", "x"))
    assert_equal :analogger, Handshake.new("").read(frame("web", "authentication", "")).kind
    assert_equal :analogger, Handshake.new("pässword").read(frame("web", "authentication", "pässword")).kind
    assert_equal :analogger, Handshake.new("a:b").read(frame("web", "authentication", "a:b")).kind
  end

  def test_a_broken_frame_has_an_error_with_the_cause
    assert_equal "checksum failed", Handshake.new("").read("00200021")
    assert_equal "max length exceeded", Handshake.new("").read("81928192")
    assert_equal "malformed frame", Handshake.new("").read("00110011abc")
  end

  private

  def read(service, words)
    Handshake.new("").read(frame(service, words, ""))
  end

  def frame(*parts)
    Gyre::Log::Wire.frame(*parts)
  end
end
