# frozen_string_literal: true

# What can be set and where a server then listens: Gyre::Web::Settings.

require "test_helper"
require "gyre/web/settings"
require "support/configuration_guide"

class WebSettingsTest < Minitest::Test
  Settings = Gyre::Web::Settings

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
    assert_equal ["tcp://localhost:5000"], Settings.endpoints({}, "development", default_port: 5000).map(&:to_s)
    assert_equal ["tcp://example.org:5000"], Settings.endpoints({ bind: ["example.org"] }, "production", default_port: 5000).map(&:to_s)
  end

  def test_flags_win_over_the_file_limit_by_limit
    file = { quiet: true, rackup: "a.ru", limits: { connections_limit: 1, header_count_limit: 1 } }
    flags = { rackup: "b.ru", limits: { connections_limit: 2 } }
    assert_equal({ quiet: true, rackup: "b.ru", limits: { connections_limit: 2, header_count_limit: 1 } }, Settings.merge(file, flags))
  end

  def test_an_address_by_flag_is_instead_of_the_files_addresses
    file = { bind: ["a:1"], host: "c", port: 1 }
    assert_equal({ bind: ["b:2"] }, Settings.merge(file, { bind: ["b:2"] }))
    assert_equal({ host: "c", port: 2 }, Settings.merge(file, { port: 2 }))
    assert_equal({ host: "d", port: 1 }, Settings.merge(file, { host: "d" }))
  end

  def test_requests_are_logged_in_development_only
    assert_equal "common", Settings.default_log_format("development")
    assert_equal "none", Settings.default_log_format("production")
  end

  def test_no_name_means_two_things
    assert_equal Settings.names.uniq, Settings.names
    assert_empty Settings::FOREIGN.keys & Settings.names
  end

  def test_advice_for_foreign_names_leads_to_names_that_exist
    Settings::FOREIGN.each_value do |advice|
      name = advice[/\Awrite (\w+)\z/, 1] or next
      assert_includes Settings.names, name.to_sym
    end
  end

  def test_the_guide_has_a_row_for_every_setting_and_limit
    guide = File.read(File.join(GyreTest::Helpers::ROOT, "docs/serve.md"))
    Gyre::HTTP::Limits::TABLE.each do |row|
      assert_includes guide, "| `#{row.flag} #{row.unit.upcase}` | #{row.default_text} | #{row.status || "closes"} | #{row.meaning} |"
    end
    (Settings::TABLE.map(&:name) - [:rackup]).each { |name| assert_match(/^\|.*`--#{name.to_s.tr("_", "-")}/, guide) }
  end

  def test_the_list_of_all_settings_is_current
    guide = GyreTest::ConfigurationGuide
    assert_equal guide.text, File.read(guide::PATH, encoding: "UTF-8"), "run rake docs:configuration"
  end

  private

  def addresses(settings, environment = "development")
    Settings.endpoints(settings, environment).map(&:to_s)
  end
end
