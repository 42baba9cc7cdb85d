# frozen_string_literal: true

# The programs in docs/getting-started.md and docs/faq.md print what the pages say.

require "test_helper"
require "support/engines"
require "support/guide"

GyreTest::Guide.test_case("DocsGettingStartedTest", "getting-started.md", least: 5, backends: ["epoll"] & GyreTest::Engines::NATIVE)
GyreTest::Guide.test_case("DocsFaqTest", "faq.md", least: 1)

class DocsIndexTest < Minitest::Test
  FOLDER = GyreTest::Guide::FOLDER

  def test_the_index_names_every_guide
    index = File.read(File.join(FOLDER, "README.md"))
    missing = Dir.children(FOLDER).grep(/\.md\z/) - ["README.md"] - index.scan(/\]\(([\w-]+\.md)\)/).flatten
    assert_empty missing
  end
end
