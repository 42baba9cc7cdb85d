# frozen_string_literal: true

# Values that no setting expects, given to each row of each table: of gyre serve, gyre log, TLS,
# limits and the memcached client. Each is accepted or an ArgumentError.

require "test_helper"
require "gyre/cli/log/configuration"
require "gyre/memcached/options"
require "gyre/web/settings"

class HostileValuesTest < Minitest::Test
  TABLES = [Gyre::Web::SETTINGS, Gyre::Web::Folder::SETTINGS, Gyre::Web::Addresses::TLS_SETTINGS, Gyre::Web::Addresses::CERTIFICATE,
            Gyre::CLI::Log::Configuration::SETTINGS, Gyre::CLI::Log::Configuration::LOG, Gyre::Log::Inlet::SETTINGS,
            Gyre::Log::Output::RedisOutput::OPTIONS, Gyre::Log::Rotation::Policy::SETTINGS, Gyre::Log::Limits::TABLE,
            Gyre::Memcached::Options::SETTINGS].freeze
  VALUES = [nil, "", " ", "\0", "a\0b", "\xff", "\xff?a=\xff", "5".encode("UTF-16LE"), "1.5s", "-1", -1, "0x10", 10**30, "9" * 500,
            1e300, Float::NAN, Float::INFINITY, Complex(1, 1), true, false, :none, [], [[]], [nil], [["a"]], {}, { nil => 1 }, { a: 1 },
            { "a" => { b: 1 } }, Object.new, Class, -> {}, 1..2, "tcp://", "tcp://[::1", "ssl://x:1?cert=", "unix://", "?", "x?=", "x?&&", "%",
            "%{", "'", "/\n", "10.0.0.0/33", "/8", "redis://h/x"].freeze
  ANY = Gyre::Settings::Type::TYPES[:any]

  def test_each_is_accepted_or_an_argument_error
    TABLES.each do |table|
      table.each do |row|
        VALUES.each do |value|
          row.check(value)
        rescue ArgumentError => error
          refute_match(/undefined|invalid byte|conversion|comparison/, error.message, "#{row.name}: #{value.inspect[0, 50]}")
        rescue StandardError => error
          flunk "#{row.name}: #{value.inspect[0, 50]}: #{error.full_message}"
        end
      end
    end
  end

  def test_no_setting_takes_text_that_cannot_be_a_path_or_a_word
    rows = TABLES.flat_map(&:to_a).reject { |row| row.section? || row.type.equal?(ANY) }
    rows.product(["a\0b", "\xff", "x".encode("UTF-16LE")]).each do |row, value|
      assert_raises(ArgumentError, "#{row.name}: #{value.inspect}") { row.check(value) }
    end
  end

  def test_an_unknown_name_in_a_broken_encoding_is_refused
    assert_raises(ArgumentError) { Gyre::Web::SETTINGS.read({ "p\xffrt" => 1 }) }
  end

  def test_numbers_have_a_bound_that_c_can_take
    { body_bytes_limit: "99999999999T", connections_limit: 10**30, keep_alive_timeout_s: 1e300, workers: 1_000_000 }.each do |name, value|
      assert_match(/must be .*, not /, assert_raises(ArgumentError) { Gyre::Web::SETTINGS.check(name, value) }.message)
    end
    assert_equal 1 << 40, Gyre::Web::SETTINGS.check(:body_bytes_limit, "1T")
  end

  def test_an_empty_text_is_never_the_whole_machine_or_the_working_folder
    { host: "", bind: "", static: "?at=/files", tls: [] }.each do |name, value|
      assert_raises(ArgumentError, name) { Gyre::Web::SETTINGS.check(name, value) }
    end
  end

  def test_only_text_and_ports_are_addresses
    [true, false, :unix, Float::NAN, -1, Class, 1..2].each do |value|
      %i[bind metrics].each { |name| assert_raises(ArgumentError, value.inspect) { Gyre::Web::SETTINGS.check(name, value) } }
    end
  end
end
