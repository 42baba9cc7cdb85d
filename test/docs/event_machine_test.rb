# frozen_string_literal: true

# The programs in docs/event_machine.md print what the guide shows, under EventMachine's name.

require "test_helper"
require "support/engines"
require "support/guide"

GyreTest::Guide.test_case("DocsEventMachineTest", "event_machine.md", least: 4, backends: GyreTest::Engines::NATIVE.first(1)) do
  def environment = { "RUBYLIB" => File.expand_path("../../lib/gyre/event_machine/features", __dir__) }
end
