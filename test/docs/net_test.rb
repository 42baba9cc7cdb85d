# frozen_string_literal: true

# The programs in docs/net.md print what the guide shows. They need the extension.

require "test_helper"
require "support/engines"
require "support/guide"

GyreTest::Guide.test_case("DocsNetTest", "net.md", least: 4, backends: GyreTest::Engines::NATIVE.first(1))
