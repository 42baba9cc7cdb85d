# frozen_string_literal: true

# Gyre::Log::Rotation::Policy: what `rotate` may have.

require "test_helper"
require "gyre"
require "gyre/log/output/rotation"

class LogRotationPolicyTest < Minitest::Test
  def parse(settings)
    Gyre::Log::Rotation::Policy.parse(settings)
  end

  def test_what_people_write
    { { size: 500 } => [500, nil, 30, false], { "size" => "64k" } => [65_536, nil, 30, false],
      { size: "100 MB", keep: 3 } => [100 << 20, nil, 3, false], { every: "day", keep: nil } => [nil, 86_400, 30, false],
      { every: :hour, compress: true } => [nil, 3600, 30, :gzip], { every: 2.5 } => [nil, 2.5, 30, false],
      { size: "1G", every: "week", compress: :gzip } => [1 << 30, 604_800, 30, :gzip],
      { size: 1, compress: false } => [1, nil, 30, false], { size: 1, compress: "none" } => [1, nil, 30, false] }
      .each { |settings, values| assert_equal values, parse(settings).to_a, settings.inspect }
  end

  def test_mistakes
    { {} => /needs size, every, or both/, 7 => /must be keys with values/, { size: "much" } => /size: must be a number of bytes .*not "much"/,
      { size: 0 } => /size: /, { every: "moon" } => /every: must be .*not "moon"/, { size: 1, keep: 0 } => /keep: /,
      { size: 1, compress: "zstd" } => /compress: must be gzip or none, not "zstd"/,
      { size: 1, copies: 2 } => /copies: unknown key; did you mean compress\?/ }.each do |settings, message|
      assert_match message, assert_raises(ArgumentError, settings.inspect) { parse(settings) }.message
    end
  end
end
