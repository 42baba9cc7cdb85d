# frozen_string_literal: true

# The tables of keys fit the checks, and each other.

require "test_helper"
require "gyre/cli/log/configuration"

class LogConfigurationKeysTest < Minitest::Test
  Keys = Gyre::CLI::Log::Configuration::Keys
  SECTIONS = [Keys::TOP, Keys::LOG, Keys::INPUT, Keys::TLS, Keys::ROTATE].freeze

  def test_every_key_has_a_check_that_exists
    known = [Gyre::CLI::Log::Configuration::Checks, Gyre::Values].flat_map(&:singleton_methods) + %i[section list limits]
    wrong = SECTIONS.flat_map(&:keys).reject { |key| key.type.is_a?(Array) || known.include?(key.type) }
    assert_empty wrong.map(&:name)
  end

  def test_foreign_words_lead_to_keys_that_exist_and_are_none_themselves
    names = SECTIONS.flat_map(&:names)
    assert_empty Keys::FOREIGN.values - names
    assert_empty Keys::FOREIGN.keys & Keys::TOP.names
  end

  def test_rules_name_keys_and_functions_that_exist
    SECTIONS.each do |section|
      assert_empty [*section.needs, *section.needs_one, *section.excludes.to_a.flatten, *section.analogger.values.compact] - section.names
      assert_empty section.rules - Gyre::CLI::Log::Configuration::SectionRules.private_instance_methods(false)
    end
  end
end
