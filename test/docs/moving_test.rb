# frozen_string_literal: true

# The guides for those who come from Puma and Falcon, the guide to production and the comparison:
# what they name of Gyre is there.

require "test_helper"
require "gyre/cli/serve"
require "gyre/web/config"

class MovingGuidesTest < Minitest::Test
  FOLDER = File.join(GyreTest::Helpers::ROOT, "docs")
  def flags
    @flags ||= Gyre::CLI::Serve.new.flags.help
  end

  %w[from-puma from-falcon].each do |name|
    define_method("test_#{name}: what stands in the last column is there") do
      text = guide(name).sub(/^## Gems that keep state by thread$.*?(?=^## )/m, "") # web/thread_state_test.rb reads those
      cells = text.scan(/^\|.*\|$/).reject { |row| row.match?(/\| Gyre \|$|^\|---/) }.map { |row| row.split("|").last }
      code = cells.flat_map { |cell| cell.scan(/`([^`]+)`/).flatten }
      refute_empty code
      code.each { |text| assert known?(text), "#{name}: `#{text}`" }
    end
  end

  # Every block that is no configuration is at least Ruby, without a warning.
  def test_the_configurations_in_the_guides_can_be_read
    blocks = Dir["#{FOLDER}/*.md"].flat_map { |path| File.read(path, encoding: "UTF-8").scan(/^```ruby\n(.*?)^```/m).flatten }
    warnings = capture_io { blocks.each { |text| RubyVM::InstructionSequence.compile(text) } }.last.lines
    assert_empty warnings.grep_v(/unused|possibly useless/)
    words = Gyre::Web::SETTINGS.map(&:name).join("|")
    configurations = blocks.grep(/\A(?:\s*#.*\n)*(?:#{words})\b/)
    assert_operator configurations.size, :>=, 6
    configurations.each { |text| refute_empty Gyre::Web::Config.new("gyre.rb").evaluate(text), text }
    lists = guide("deploy").scan(/"gyre", "serve", (.*?)\]/).flatten
    lists.each { |list| list.scan(/--?[\w-]+/) { |flag| assert_match(/#{flag.sub("--", "--(\\[no-\\])?")}\b/, flags) } }
  end

  # Behind a tick stands what proves it.
  def test_each_tick_of_ours_has_a_test
    rows = guide("comparison").scan(/^\|.*\|$/).map { |row| row.split("|").map(&:strip) }
    column = rows.first.index("Gyre")
    ours = rows.drop(2).map { |row| row[column] }
    refute_empty ours
    ours.each do |cell|
      next assert_match(/\A–/, cell) unless cell.include?("✓")

      links = cell.scan(%r{<!-- (test/[\w./]+) -->}).flatten
      refute_empty links, cell
      links.each { |path| assert File.exist?(File.join(GyreTest::Helpers::ROOT, path)), path }
    end
  end

  private

  def guide(name)
    File.read(File.join(FOLDER, "#{name}.md"), encoding: "UTF-8")
  end

  # Flags, words of the configuration, commands of `gyre`, environment keys, signals.
  def known?(text)
    return text.scan(/--[\w-]+/).all? { |flag| flags.match?(/--(\[no-\])?#{flag[2..]}\b/) } if text.match?(/--\w/)
    return true if text.match?(/\A(?:gyre (?:ctl|top|serve)|env\[|Thread|unix:|rackup|ruby|config|QUIT\z|HUP\z|USR[12]\z|X-|\/)/)

    !Gyre::Web::SETTINGS[text[/\A\w+/].to_s].nil?
  end
end
