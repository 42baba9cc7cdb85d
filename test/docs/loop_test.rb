# frozen_string_literal: true

# The programs in docs/loop.md print what the guide shows, on every engine.

require "test_helper"
require "support/engines"
require "support/guide"

GyreTest::Guide.test_case("DocsLoopTest", "loop.md", least: 7)
