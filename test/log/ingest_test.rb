# frozen_string_literal: true

require "test_helper"
require "gyre/log/ingest"

class LogIngestTest < Minitest::Test
  def test_the_portable_engine_has_the_portable_twin
    result = ruby("-e", 'require "gyre/log"; print Gyre::Log::Ingest.new(services_limit: 3).class', env: { "GYRE_BACKEND" => "select" })
    assert_equal "Gyre::Log::PortableIngest", result.out
    assert_empty result.err
  end
end
