# frozen_string_literal: true

# Which file a client gets by which name, and that there is no name for any other:
# Gyre::HTTP::Files::Root and OpenFile (ext/gyre/http/file.c).

require "test_helper"
require "socket"
require "tmpdir"
require "gyre/http"
require "gyre/http/files/root"

class HTTPFilesRootTest < Minitest::Test
  Root = Gyre::HTTP::Files::Root

  def setup
    @folder = Dir.mktmpdir("gyre")
    @public = File.join(@folder, "public")
    FileUtils.mkdir_p(File.join(@public, "a/b"))
    write("a.txt", "plain")
    write("a/b/c.css", "nested")
    write("a/index.html", "index")
    write("with space.txt", "space")
    write("ä.txt", "umlaut")
    write("100%.txt", "percent")
    write("%2e.txt", "literal")
    write(".env", "hidden")
    write(".git/config", "hidden")
    write("a/.htpasswd", "hidden")
    write(".well-known/security.txt", "known")
    File.write(File.join(@folder, "secret.txt"), "secret")
  end

  def teardown
    @roots&.each(&:close)
    FileUtils.rm_rf(@folder)
  end

  FOUND = {
    "/a.txt" => "plain", "/a/b/c.css" => "nested", "/with%20space.txt" => "space", "/%C3%A4.txt" => "umlaut", "/%61.txt" => "plain",
    "/100%25.txt" => "percent", "/%252e.txt" => "literal", "/.well-known/security.txt" => "known"
  }.freeze

  # What must not be found, and where such a name has led out of a folder, or told of a file.
  REFUSED = {
    "/" => "a folder", "" => "no path", "a.txt" => "no path", "*" => "OPTIONS *", "/a" => "a folder", "/a/" => "no index was asked for",
    "/../secret.txt" => "iodine CVE-2024-22050, Rack CVE-2011-0754", "/a/../../secret.txt" => "Rack CVE-2013-0262",
    "/%2e%2e/secret.txt" => "CVE-2021-41773 (Apache)", "/.%2e/secret.txt" => "CVE-2021-41773", "/%2e%2e%2fsecret.txt" => "CVE-2021-42013",
    "/%252e%252e/secret.txt" => "decoded once only: Sprockets CVE-2018-3760", "/%%32%65%%32%65/secret.txt" => "CVE-2021-42013",
    "/..%5csecret.txt" => "CVE-2024-38819 (Spring)", "/..\\secret.txt" => "backslashes", "/a%5c..%5c..%5csecret.txt" => "backslashes",
    "/%c0%ae%c0%ae/secret.txt" => "overlong UTF-8: CVE-2000-0884 (IIS)", "/%e0%80%ae./secret.txt" => "overlong UTF-8",
    "/%uff0e%uff0e/secret.txt" => "%u: CVE-2000-0884", "/a%2fb%2fc.css" => "an encoded slash: CVE-2018-3760",
    "/a.txt%00.png" => "NUL: CVE-2006-7243", "/a.txt\0.png" => "NUL", "//a.txt" => "an empty part", "/a//b/c.css" => "an empty part",
    "//etc/passwd" => "an absolute path: CVE-2018-3760", "/%2fetc/passwd" => "an absolute path", "/file:///etc/passwd" => "CVE-2018-3760",
    "/./a.txt" => "a dot", "/a/./b/c.css" => "a dot", "/a/b/" => "a folder", "/a.txt/" => "a file is no folder", "/a.txt/b" => "the same",
    "/.env" => "hidden", "/.git/config" => "hidden", "/a/.htpasswd" => "hidden", "/%2eenv" => "hidden",
    "/.well-known/../.env" => "hidden", "/.well-known" => "a folder", "/a.txt%" => "broken", "/a.txt%4" => "broken", "/%zz" => "broken",
    "/a.txt%0a" => "a control character", "/a.txt%20" => "another name", "/A.TXT" => "another name", "/a.txt;x=1" => "another name",
    "/#{"a" * 300}" => "longer than a name", "/#{"a/" * 3000}a" => "longer than a path", "/#{"%61" * 3000}" => "longer than a path",
    "/a.txt::$DATA" => "CVE-1999-0278 (IIS)", "/~root/a.txt" => "no home folders"
  }.freeze

  def test_names_of_files_are_found
    FOUND.each { |path, content| assert_equal content, read(root_at(@public), path), path }
  end

  def test_other_names_are_refused
    REFUSED.each { |path, reason| assert_nil read(root_at(@public), path), "#{path[0, 40].inspect} (#{reason})" }
  end

  def test_no_drawn_path_names_anything_outside_of_the_folder
    pieces = (%w[/ / . .. % %2 %2e %2E %2f %5c %00 %c0%ae %25 \\ a b.txt .env .well-known secret.txt .. //] +
              ["\0", " ", "\xC0", "ä", ";", "~"]).map(&:b)
    random = Random.new(42)
    roots = [root_at(@public), root_at(@public, dot_files: true, index: true), root_at(@public, at: "/a")]
    20_000.times do
      path = "/#{Array.new(random.rand(1..8)) { pieces.sample(random: random) }.join.b}"
      roots.each do |root|
        name = root.name(path) or next
        assert_equal "#{@public}/#{name.b}".b, File.absolute_path(name.b, @public).b, path.inspect
        refute_match(/[\\\x00-\x1f]/n, name.b, path.inspect)
      end
    end
  end

  def test_index_and_dot_files_by_option
    assert_equal "index", read(root_at(@public, index: true), "/a/")
    assert_nil read(root_at(@public, index: true), "/a/b/")
    assert_nil read(root_at(@public, index: true), "/../")
    assert_equal "hidden", read(root_at(@public, dot_files: true), "/.env")
    assert_nil read(root_at(@public, dot_files: true), "/..")
    assert_nil read(root_at(@public, dot_files: true), "/../secret.txt")
  end

  def test_a_prefix_is_a_whole_part_of_the_path
    root = root_at(@public, at: "/files/")
    assert_equal "plain", read(root, "/files/a.txt")
    ["/a.txt", "/filesa.txt", "/files", "/files/", "/filesa/a.txt", "/files/../a.txt"].each { |path| assert_nil read(root, path), path }
    assert_raises(ArgumentError) { root_at(@public, at: "files") }
  end

  def test_a_symbolic_link_leads_anywhere_in_the_folder_and_nowhere_else
    link("../secret.txt", "out.txt")
    link("/etc/passwd", "absolute.txt")
    link("..", "up")
    link("/proc/self/cwd", "magic")
    link("a.txt", "inside.txt")
    link("b/../../a.txt", "a/through.txt")
    link("loop", "loop")
    root = root_at(@public)
    %w[/out.txt /absolute.txt /up/secret.txt /magic/etc/passwd /loop].each { |path| assert_nil read(root, path), path }
    assert_equal %w[plain plain], [read(root, "/inside.txt"), read(root, "/a/through.txt")]
    assert_equal "secret", read(root_at(@public, symlinks: true), "/out.txt")
  end

  def test_anything_but_a_regular_file_is_closed_at_once
    File.mkfifo(File.join(@public, "fifo"))
    socket = UNIXServer.new(File.join(@public, "socket"))
    link("/dev/zero", "zero")
    %w[/fifo /socket].each { |path| assert_nil read(root_at(@public), path), path }
    assert_nil read(root_at(@public, symlinks: true), "/zero")
  ensure
    socket&.close
  end

  def test_a_file_that_this_process_may_not_read_is_none
    File.chmod(0, File.join(@public, "a.txt"))
    content = read(root_at(@public), "/a.txt")
    Process.uid.zero? ? assert_equal("plain", content) : assert_nil(content)
  end

  def test_a_folder_that_becomes_a_link_while_it_is_looked_up_leads_nowhere
    moved = File.join(@folder, "moved")
    FileUtils.mkdir_p(File.join(@folder, "outside"))
    File.write(File.join(@folder, "outside/c.css"), "secret")
    inside = File.join(@public, "a/b")
    stop = false
    exchange = Thread.new do
      until stop
        File.rename(inside, moved)
        File.symlink("../../outside", inside)
        File.unlink(inside)
        File.rename(moved, inside)
      end
    end
    root = root_at(@public)
    seen = Array.new(2000) { open_and_read(root, "a/b/c.css") }.uniq
    stop = true
    exchange.join
    assert_equal "nested", open_and_read(root, "a/b/c.css")
    assert_empty seen - ["nested", nil]
  ensure
    stop = true
    exchange&.join
  end

  # The former folder serves until the loop has the new one: no other request waits for that.
  def test_a_folder_is_exchanged_without_a_moment_in_which_no_file_is_found
    current = File.join(@folder, "current")
    File.symlink("public", current)
    root = root_at(current)
    FileUtils.cp_r(@public, File.join(@folder, "two"))
    File.unlink(current)
    File.symlink("two", current)
    opened = Thread::Queue.new
    events = []
    File.define_singleton_method(:open) { |*arguments, **options, &block| super(*arguments, **options, &block).tap { opened << true } }
    Gyre.run do |task|
      task.async do
        root.open("a.txt").close
        events << :exchanged
      end
      Thread.pass while opened.empty? # the loop stands still, and has not taken the new folder yet
      root.open("a.txt").close
      events << :found
    end
    assert_equal %i[found exchanged], events
  ensure
    File.singleton_class.remove_method(:open)
  end

  def test_a_folder_that_a_deployment_exchanges_is_looked_up_again
    current = File.join(@folder, "current")
    FileUtils.mkdir_p(File.join(@folder, "two"))
    File.write(File.join(@folder, "two/a.txt"), "second")
    File.symlink("public", current)
    root = root_at(current)
    assert_equal "plain", read(root, "/a.txt", 0.0)
    File.unlink(current)
    File.symlink("two", current)
    root.instance_variable_get(:@folder).instance_variable_set(:@until_s, 0.0)
    assert_equal "second", read(root, "/a.txt", 10.0)
    FileUtils.rm_rf(current)
    root.instance_variable_get(:@folder).instance_variable_set(:@until_s, 0.0)
    assert_nil read(root, "/a.txt", 20.0)
  end

  def test_a_folder_is_checked_without_a_thread
    skip "needs openat2 with RESOLVE_CACHED (Linux 5.12)" unless RUBY_PLATFORM.match?(/linux/)
    File.symlink("public", File.join(@folder, "current"))
    leads = ->(name, folder) { Gyre::HTTP::OpenFile.leads_to?(File.join(@folder, name), folder) }
    File.open(@public) do |folder|
      assert_equal [true, true, false, false, false], %w[public current public/a none secret.txt].map { |name| leads.call(name, folder) }
      folder.close
      assert_raises(IOError) { leads.call("public", folder) }
    end
    assert_raises(ArgumentError) { File.open(@public) { |folder| leads.call("a\0b", folder) } }
    root = root_at(@public)
    other_ran = false
    Gyre.run do |task|
      task.async { task.yield.then { other_ran = true } }
      root.instance_variable_get(:@folder).instance_variable_set(:@until_s, 0.0)
      root.open("a.txt").close
      refute other_ran, "the request has waited"
    end
  end

  def test_a_missing_folder_is_an_error
    assert_includes assert_raises(ArgumentError) { root_at("#{@public}/none") }.message, "there is no folder"
    assert_raises(ArgumentError) { root_at("#{@public}/a.txt") }
  end

  def test_small_files_are_remembered_for_a_second
    root = root_at(@public)
    assert_equal "plain", read(root, "/a.txt", 100.0)
    write("a.txt", "longer text")
    assert_equal "plain", read(root, "/a.txt", 100.5)
    assert_equal "longer text", read(root, "/a.txt", 101.5)
    FileUtils.rm(File.join(@public, "a.txt"))
    assert_equal "longer text", read(root, "/a.txt", 101.6)
    assert_nil read(root, "/a.txt", 103.0)
  end

  def test_the_memory_of_files_is_bounded
    root = root_at(@public)
    400.times { |number| write("n/#{number}.bin", "x" * 60_000) }
    400.times { |number| assert_equal 60_000, read(root, "/n/#{number}.bin").bytesize }
    held = root.instance_variable_get(:@entries).sum { |_, entry| entry.plain.content.to_s.bytesize }
    assert_operator held, :<=, Root::REMEMBERED_S * 17 * 1024 * 1024
  end

  def test_a_large_file_that_changed_a_moment_ago_is_described_as_it_is
    write("large.bin", "x" * 100_000)
    root = root_at(@public)
    assert_equal 100_000, root.find("large.bin", nil, 1.0) { |variant, file| file.close || variant.size }
    write("large.bin", "y" * 100_001)
    assert_equal 100_001, root.find("large.bin", nil, 1.1) { |variant, file| file.close || variant.size }
  end

  def test_compressed_files_are_chosen_by_the_clients_codings
    { "c.js" => "plain", "c.js.br" => "as br", "c.js.zst" => "as zstd", "c.js.gz" => "as gzip" }.each { |name, text| write(name, text) }
    root = root_at(@public)
    assert_equal ["plain", "as br", "as gzip", "as zstd"], [nil, "gzip, br", "gzip", "zstd"].map { |accepted| read(root, "/c.js", 1.0, accepted) }
    headers = root.find("c.js", "gzip", 1.0) { |variant, _| variant.headers }
    assert_equal ["gzip", "accept-encoding", "text/javascript; charset=utf-8"], headers.values_at("content-encoding", "vary", "content-type")
    assert_equal "accept-encoding", root.find("c.js", nil, 1.0) { |variant, _| variant.headers["vary"] }
    assert_equal 4, [nil, "gzip", "br", "zstd"].map { |accepted| root.find("c.js", accepted, 1.0) { |variant, _| variant.headers["etag"] } }.uniq.size
    assert_nil root.find("a.txt", "gzip", 1.0) { |variant, _| variant.headers["vary"] }
    assert_equal "plain", read(root_at(@public, precompressed: false), "/c.js", 1.0, "gzip")
  end

  def test_files_with_a_digest_in_their_names_may_be_cached_without_end
    root = root_at(@public, immutable: true, cache_control: "no-cache")
    kept = %w[app-1a2b3c4d.js app-0123456789abcdef0123456789abcdef.css index-BsX9_k2a.js app.9f8e7d6c.chunk.js x-1a2b3c4d.digested.js]
    others = %w[app.js date-picker-component.js jquery-3.js a.css some-stylesheet.css]
    (kept + others).each { |name| write(name, "x") }
    assert_equal [Root::IMMUTABLE] * kept.size, kept.map { |name| cache_control(root, name) }
    assert_equal ["no-cache"] * others.size, others.map { |name| cache_control(root, name) }
    assert_nil cache_control(root_at(@public), kept.first)
  end

  def test_an_unknown_type_is_not_to_be_guessed
    write("data.unknown", "x")
    headers = root_at(@public).find("data.unknown", nil, 1.0) { |variant, _| variant.headers }
    assert_equal ["application/octet-stream", "nosniff"], headers.values_at("content-type", "x-content-type-options")
  end

  def test_a_closed_file_refuses_all_use
    root = root_at(@public)
    file = root.open("a.txt")
    assert_equal "plain", file.read_cached(0, 10)
    assert_nil file.close
    assert_nil file.close
    [-> { file.read_cached(0, 1) }, -> { file.to_io }, -> { file.cached?(0, 1) }].each { |use| assert_raises(IOError, &use) }
    io = root.open("a.txt").then { |open| [open, open.to_io] }
    io.first.close
    assert_predicate io.last, :closed?
  end

  # Its descriptor may have become another file's.
  def test_a_file_that_its_app_has_closed_is_not_read_by_its_former_number
    opened = File.open(File.join(@public, "a.txt"))
    file = Gyre::HTTP::OpenFile.of(opened)
    opened.close
    File.open(File.join(@folder, "secret.txt")) do
      [-> { file.read_cached(0, 10) }, -> { file.cached?(0, 1) }].each { |use| assert_raises(IOError, &use) }
    end
  end

  private

  def root_at(path, **options)
    Root.new(path, **options).tap { |root| (@roots ||= []) << root }
  end

  def write(name, text)
    path = File.join(@public, name)
    FileUtils.mkdir_p(File.dirname(path))
    File.binwrite(path, text)
  end

  def link(target, name)
    File.symlink(target, File.join(@public, name))
  end

  def read(root, path, now_s = 1.0, accepted = nil)
    name = root.name(path.b) or return
    root.find(name, accepted, now_s) do |variant, file|
      next variant.content.dup.force_encoding("UTF-8") unless file

      file.read_cached(0, file.size).tap { file.close }
    end
  end

  def open_and_read(root, name)
    file = root.open(name) or return
    file.read_cached(0, 100).tap { file.close }
  end

  def cache_control(root, name)
    root.find(name, nil, 1.0) { |variant, _| variant.headers["cache-control"] }
  end
end
