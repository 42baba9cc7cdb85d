# frozen_string_literal: true

# The tables of keys fit the checks, and each other.

require "test_helper"
require "gyre/log/configuration"

class LogConfigurationKeysTest < Minitest::Test
  Keys = Gyre::Log::Configuration::Keys
  TABLES = [Keys::TOP, Keys::LOG, Keys::INPUT, Keys::TLS, Keys::ROTATE].freeze

  def test_every_key_has_a_check_that_exists
    known = Gyre::Log::Configuration::Checks.singleton_methods + %i[section list limits ignored]
    wrong = TABLES.flatten.reject { |key| key.check.is_a?(Array) || known.include?(key.check) }
    assert_empty wrong.map(&:name)
  end

  def test_foreign_words_lead_to_keys_that_exist_and_are_none_themselves
    names = TABLES.flatten.map(&:name)
    assert_empty Keys::FOREIGN.values - names
    assert_empty Keys::FOREIGN.keys & Keys::TOP.map(&:name)
  end
end
