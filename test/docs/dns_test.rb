# frozen_string_literal: true

# docs/dns.md: its programs print what the guide shows, with a dnsmasq of their own.

require "test_helper"
require "support/engines"
require "support/guide"
require "support/name_servers"

GyreTest::Guide.test_case("DocsDNSTest", "dns.md", least: 2, backends: GyreTest::Engines::NATIVE.first(1)) do
  include GyreTest::NameServers

  def environment = { "NAME_SERVER" => @address }

  def test_the_programs_print_what_the_guide_shows
    with_dnsmasq("--local=/example.org/", "--host-record=www.example.org,192.0.2.1", "--host-record=mail.example.org,192.0.2.2",
      "--mx-host=example.org,mail.example.org,10") do |address|
      @address = address
      super
    end
  end
end
