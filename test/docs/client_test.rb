# frozen_string_literal: true

# docs/client.md: its programs print what the guide shows, with examples/client_service.ru behind
# them; its table names each keyword.

require "test_helper"
require "gyre/http/client"
require "http/serving"
require "rack"
require "support/engines"
require "support/guide"

GyreTest::Guide.test_case("DocsClientTest", "client.md", least: 8, backends: GyreTest::Engines::NATIVE.first(1)) do
  include GyreTest::HTTPServing

  def environment = { "SERVICE" => @url }

  def test_the_programs_print_what_the_guide_shows
    serve(Rack::Builder.parse_file("examples/client_service.ru")) do |served|
      @url = "http://127.0.0.1:#{served.port}"
      super
    end
  end
end

class DocsClientTablesTest < Minitest::Test
  GUIDE = File.read(File.join(GyreTest::Guide::FOLDER, "client.md"), encoding: "UTF-8").freeze

  def test_every_keyword_of_the_client_is_in_the_table
    names = Gyre::HTTP::Client.instance_method(:initialize).parameters.filter_map { |kind, name| name if kind == :key }
    assert_empty names.reject { |name| GUIDE.include?("`#{name}:") }
  end
end
