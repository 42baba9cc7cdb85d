# frozen_string_literal: true

# Authorities on their own; what is accepted and refused is in cases/hosts.rb (see parser_test.rb).
require "test_helper"
require "oracle/http/authority"

class HTTP1AuthorityTest < Minitest::Test
  def test_an_authority_has_a_host_and_perhaps_a_port
    assert_equal ["a.b:80", "a.b", "80"], HTTPOracle::Authority.parse("a.b:80".b).to_a
    assert_equal ["a.b", "a.b", ""], HTTPOracle::Authority.parse("a.b".b).to_a
  end

  def test_an_ipv6_address_keeps_its_brackets
    assert_equal ["[::1]:80", "[::1]", "80"], HTTPOracle::Authority.parse("[::1]:80".b).to_a
  end

  def test_what_names_no_host_is_nil
    ["", ":80", "u@a", "[::1", "a:b", "a:65536"].each { |text| assert_nil HTTPOracle::Authority.parse(text.b), text }
  end
end
