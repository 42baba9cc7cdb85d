# frozen_string_literal: true

# Every link in a Markdown file of this repository leads to a file that exists, and to a heading in
# it.
require "test_helper"

class DocsLinksTest < Minitest::Test
  FILES = Dir.glob("{*,{docs,bench,examples,test,fuzz}/**/*}.md", base: ROOT)

  def test_every_link_leads_to_a_file_and_a_heading
    links = FILES.flat_map { |file| links_of(file).map { |link| [file, link] } }
    refute_empty links
    assert_empty links.reject { |file, link| leads_somewhere?(file, link) }
  end

  def test_every_link_works_in_the_installed_gem
    carried = Gem::Specification.load(File.join(ROOT, "gyre.gemspec")).files
    links = carried.grep(/\.md\z/).flat_map { |file| links_of(file).map { |link| [file, link] } }
    missing = links.reject do |file, link|
      path, = link.split("#", 2)
      target = File.expand_path(path, File.join("/", path.empty? ? file : File.dirname(file))).delete_prefix("/")
      path.empty? || carried.any? { |name| name == target || name.start_with?("#{target}/") }
    end
    assert_empty missing
  end

  def test_yard_reads_files_that_exist
    files = File.readlines(File.join(ROOT, ".yardopts"), chomp: true).grep_v(/\A-|\*/)
    refute_empty files
    assert_empty files.reject { |file| File.file?(File.join(ROOT, file)) }
  end

  def test_yard_reads_each_file_with_a_method_of_transports_and_what_gives_them
    methods = Dir["ext/gyre/net/*.c", base: ROOT].select { |file| File.read(File.join(ROOT, file)).include?("rb_define_method(transport_class") }
    given = methods + %w[lib/gyre/net.rb lib/gyre/net/server.rb lib/gyre/net/transport.rb]
    assert_operator methods.size, :>, 1
    assert_empty given - File.readlines(File.join(ROOT, ".yardopts"), chomp: true)
  end

  private

  # Prose only: brackets in code are no links.
  def prose(file)
    File.read(File.join(ROOT, file), encoding: "UTF-8").gsub(/^```.*?^```/m, "")
  end

  def links_of(file)
    prose(file).gsub(/`[^`\n]*`/, "").scan(/\]\(([^)\s]+)\)/).flatten.grep_v(/\A\w+:/)
  end

  def leads_somewhere?(file, link)
    path, anchor = link.split("#", 2)
    target = path.empty? ? file : File.join(File.dirname(file), path)
    File.exist?(File.join(ROOT, target)) && (anchor.nil? || anchors(target).include?(anchor))
  end

  # As GitHub makes them of headings.
  def anchors(file)
    prose(file).scan(/^#+ +(.+)$/).flatten.map { |text| text.downcase.gsub(/[^\p{L}\p{N} _-]/, "").tr(" ", "-") }
  end
end
