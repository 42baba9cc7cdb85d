# frozen_string_literal: true

require "test_helper"
require "gyre/log/ingest"

class LogIngestTest < Minitest::Test
  def test_the_portable_engine_has_the_portable_twin
    result = ruby("-e", 'require "gyre/log"; print Gyre::Log::Ingest.new(services_limit: 3).class', env: { "GYRE_BACKEND" => "select" })
    assert_equal "Gyre::Log::PortableIngest", result.out
    assert_empty result.err
  end

  def test_the_native_engine_has_the_native_twin
    skip "the extension is not built" unless Gyre::Loop.native?
    assert_instance_of Gyre::Log::NativeIngest, Gyre::Log::Ingest.new
  end
end
