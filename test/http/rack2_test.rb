# frozen_string_literal: true

# What stands between the server and an app on Rack 2. (With Rack 2 itself: test/rack2.)

require "test_helper"
require "gyre/http/rack2"

class HTTPRack2Test < Minitest::Test
  def test_an_app_without_rack_2_stays_unchanged
    app = ->(_env) { [200, {}, []] }
    assert_same app, Gyre::HTTP::Rack2.around(app)
  end

  def test_lines_of_a_header_become_headers
    headers = { "set-cookie" => "a=1\nb=2", "x" => "y", "z" => %w[1 2] }.freeze
    assert_equal({ "set-cookie" => %w[a=1 b=2], "x" => "y", "z" => %w[1 2] }, call(headers: headers)[1])
    plain = { "x" => "y" }.freeze
    assert_same plain, call(headers: plain)[1]
    assert_nil call(headers: nil)[1]
  end

  def test_the_environment_fits_rack_2
    call do |env|
      assert_equal [[1, 3], true, false, false], env.values_at("rack.version", "rack.multithread", "rack.multiprocess", "rack.run_once")
      assert_respond_to env["rack.input"], :rewind
      assert_same Gyre::HTTP::Input::EMPTY, env["rack.input"]
      assert_equal 0, env["rack.input"].rewind
      assert_empty env["rack.response_finished"]
    end
  end

  private

  def call(entries = {}, headers: {})
    env = { "rack.input" => Gyre::HTTP::Input::EMPTY, "rack.response_finished" => [], **entries }
    Gyre::HTTP::Rack2.new(lambda do |given|
      yield given if block_given?
      [200, headers, []]
    end).call(env)
  end
end
