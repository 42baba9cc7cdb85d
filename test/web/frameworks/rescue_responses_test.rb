# frozen_string_literal: true

# What status Rails gives a request that took too long. Here is a stand-in for Rails;
# test/frameworks has the real one.

require "test_helper"
require "gyre/web/frameworks/database_pool"

class WebRescueResponsesTest < Minitest::Test
  NAME = "Gyre::HTTP::RequestTimeout"

  def applied(responses)
    wrapper = Class.new { singleton_class.attr_accessor(:rescue_responses) }
    wrapper.rescue_responses = responses.freeze # as Rails 8.2 has it
    Object.const_set(:ActionDispatch, Module.new.tap { |dispatch| dispatch.const_set(:ExceptionWrapper, wrapper) })
    Gyre::Web::RescueResponses.apply
    wrapper.rescue_responses[NAME]
  ensure
    Object.send(:remove_const, :ActionDispatch)
  end

  def test_a_request_that_took_too_long_is_unavailable
    assert_equal :service_unavailable, applied(Hash.new(:internal_server_error))
  end

  def test_the_applications_setting_stays
    assert_equal :gateway_timeout, applied({ NAME => :gateway_timeout })
  end

  def test_without_rails_nothing_happens
    assert_nil Gyre::Web::RescueResponses.apply
  end
end
