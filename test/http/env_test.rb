# frozen_string_literal: true

# The template; what becomes of it for each request is in test/http/h1/env_test.rb.

require "test_helper"
require "stringio"
require "gyre/http/env"

class HTTPEnvTest < Minitest::Test
  Env = Gyre::HTTP::Env

  def test_the_template_is_frozen_and_so_are_its_strings
    template = Env.template
    assert template.frozen?
    assert_empty template.values.grep(String).reject(&:frozen?)
    assert_equal ["http", nil], template.values_at("rack.url_scheme", "HTTPS")
    assert_same $stderr, template["rack.errors"]
    errors = StringIO.new
    assert_same errors, Env.template(extra: { "rack.errors" => errors })["rack.errors"]
  end
end
