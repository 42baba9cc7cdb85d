# frozen_string_literal: true

# Gyre::Log::Rotation::Policy: what `rotate` may have.

require "test_helper"
require "gyre"
require "gyre/log/output/rotation"

class LogRotationPolicyTest < Minitest::Test
  def parse(settings)
    Gyre::Log::Rotation::Policy.parse(settings, "rotate")
  end

  def test_what_people_write
    { { size: 500 } => [500, nil, 30, nil, :number], { "size" => "64k" } => [65_536, nil, 30, nil, :number],
      { size: "100 MB", keep: 3 } => [100 << 20, nil, 3, nil, :number], { every: "day", keep: nil } => [nil, 86_400, nil, nil, :number],
      { every: :hour, compress: true } => [nil, 3600, 30, :gzip, :number], { every: 2.5, naming: "time" } => [nil, 2.5, 30, nil, :time],
      { size: "1G", every: "week", compress: :gzip } => [1 << 30, 604_800, 30, :gzip, :number],
      { size: 1, compress: false } => [1, nil, 30, nil, :number], { size: 1, compress: "none" } => [1, nil, 30, nil, :number] }
      .each { |settings, values| assert_equal values, parse(settings).to_a, settings.inspect }
  end

  def test_mistakes
    { {} => /rotate: set size, every, or both/, 7 => /rotate must be a table/,
      { size: "much" } => /rotate.size: must be a number of bytes .*not "much"/,
      { size: 0 } => /rotate.size/, { every: "moon" } => /rotate.every: must be .*not "moon"/, { size: 1, keep: 0 } => /rotate.keep/,
      { size: 1, compress: "zstd" } => /rotate.compress: must be gzip or none, not "zstd"/, { size: 1, naming: "x" } => /rotate.naming: .*"x"/,
      { size: 1, copies: 2 } => /rotate.copies: there is no such key; there are: size, every, keep, compress, naming/ }.each do |settings, message|
      assert_match message, assert_raises(ArgumentError, settings.inspect) { parse(settings) }.message
    end
  end
end
