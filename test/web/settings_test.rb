# frozen_string_literal: true

# The table of a web server's settings, and where a server then listens: Gyre::Web::SETTINGS,
# Gyre::Web::Addresses.

require "test_helper"
require "gyre/web/settings"
require "support/configuration_guide"

class WebSettingsTest < Minitest::Test
  SETTINGS = Gyre::Web::SETTINGS

  def test_development_listens_on_this_machine_only
    assert_equal ["tcp://localhost:9292"], addresses({}, "development")
  end

  def test_other_environments_listen_everywhere
    assert_equal ["tcp://*:9292"], addresses({}, "production")
  end

  def test_host_and_port_change_the_default
    assert_equal ["tcp://localhost:3000"], addresses({ port: 3000 })
    assert_equal ["tcp://0.0.0.0:9292"], addresses({ host: "0.0.0.0" })
    assert_equal ["tcp://[::1]:3000"], addresses({ host: "::1", port: 3000 })
    assert_equal ["tcp://[::1]:3000"], addresses({ host: "[::1]", port: 3000 })
  end

  def test_host_and_port_are_one_more_address_beside_bind
    assert_equal ["unix:///run/app.sock"], addresses({ bind: ["unix:///run/app.sock"] })
    assert_equal ["unix:///run/app.sock", "tcp://localhost:3000"], addresses({ bind: ["unix:///run/app.sock"], port: 3000 })
  end

  def test_the_same_address_twice_is_one
    assert_equal ["tcp://localhost:3000"], addresses({ bind: ["localhost:3000"], port: 3000 })
  end

  def test_the_default_port_can_be_given
    assert_equal ["tcp://localhost:5000"], Gyre::Web::Addresses.listen({}, "development", default_port: 5000).map(&:to_s)
    assert_equal ["tcp://example.org:5000"], Gyre::Web::Addresses.listen({ bind: ["example.org"] }, "production", default_port: 5000).map(&:to_s)
  end

  def test_no_name_means_two_things
    names = SETTINGS.flat_map { |row| [row.word, *row.also.map(&:to_s)] }
    assert_equal names.uniq, names
    assert_empty SETTINGS.foreign.keys & names
  end

  def test_advice_for_foreign_names_leads_to_names_that_exist
    SETTINGS.foreign.each_value do |advice|
      name = advice[/\Awrite (\w+)\z/, 1] or next
      assert SETTINGS[name], advice
    end
  end

  def test_the_list_of_all_settings_is_current
    guide = GyreTest::ConfigurationGuide
    assert_equal guide.text, File.read(guide::PATH, encoding: "UTF-8"), "run rake docs:configuration"
  end

  private

  def addresses(settings, environment = "development")
    Gyre::Web::Addresses.listen(settings, environment).map(&:to_s)
  end
end
