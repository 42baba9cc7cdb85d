# frozen_string_literal: true

# The chat's page of docs/realtime.md in a headless Chromium, where one is installed: readable on a
# phone; after a deploy it connects again by itself, and what was typed stays.

require "test_helper"
require "support/chromium"
require "cluster/clusters"

class DocsChatPageTest < Minitest::Test
  include GyreTest::Clusters

  CHAT = File.read(File.expand_path("../../docs/realtime.md", __dir__), encoding: "UTF-8").scan(/^```ruby\n(.*?)^```$/m).flatten
    .find { |code| code.include?("onsubmit") }
  PHONE = { width: 390, height: 844, mobile: true }.freeze

  def test_a_phone_shows_it_and_a_deploy_costs_no_word
    skip "the guide's page is not tested in a browser: no Chromium is installed (apt-get install chromium)" unless Chromium.program
    cluster("-w", "2", "--log-format", "none", app: CHAT) do |cluster, program|
      Chromium.open do |browser|
        browser.look_like(**PHONE)
        browser.visit("http://127.0.0.1:#{program.port}/garden")
        browser.wait_until("said.children.length === 1")
        say(browser, "#{"long" * 100} and short words to the end of the line, and beyond it")
        browser.wait_until("said.children.length === 2")
        assert browser.evaluate("document.documentElement.scrollWidth <= #{PHONE[:width]}"), "it is wider than a phone"
        browser.evaluate("text.value = 'half a sentence'; window.mark = 1")
        cluster.restart(:USR1, "Rolling")
        browser.wait_until("socket.readyState === 1 && said.children.length > 2")
        assert_equal ["half a sentence", 1], browser.evaluate("[text.value, window.mark]")
        say(browser, "whole")
        browser.wait_until("said.lastChild.textContent === 'whole'")
        assert_equal "", browser.evaluate("text.value")
      end
    end
  end

  private

  def say(browser, words) = browser.evaluate("text.value = #{JSON.generate(words)}; document.querySelector('button').click()")
end
