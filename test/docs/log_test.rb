# frozen_string_literal: true

# docs/log.md: its programs print what the guide shows; its configuration and its tables are those
# of the code.

require "test_helper"
require "support/engines"
require "support/guide"
require "gyre/cli/log/configuration"

GyreTest::Guide.test_case("DocsLogTest", "log.md", least: 3, backends: GyreTest::Engines::NATIVE.first(1))

class DocsLogTablesTest < Minitest::Test
  GUIDE = File.read(File.join(GyreTest::Guide::FOLDER, "log.md"), encoding: "UTF-8").freeze
  Configuration = Gyre::CLI::Log::Configuration

  def test_its_configurations_are_right
    configurations = GUIDE.scan(/^```yaml\n(.*?)^```$/m).flatten
    assert_operator configurations.size, :>, 2
    configurations.each { |text| Configuration.parse(text, "docs/log.md") }
  end

  def test_its_first_configurations_start_as_they_are_copied
    GUIDE.scan(/^```yaml\n(.*?)^```$/m).flatten.first(2).each do |text|
      Dir.mktmpdir do |folder|
        File.write("#{folder}/log.yml", text)
        output = ruby(EXE, "log", "-c", "log.yml", "--check", chdir: folder)
        assert output.status.success?, output.err
      end
    end
  end
end
