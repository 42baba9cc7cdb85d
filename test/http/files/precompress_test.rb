# frozen_string_literal: true

# Which files get a compressed one beside them: Gyre::HTTP::Files::Precompress, and the command
# `gyre compress`.

require "test_helper"
require "stringio"
require "tmpdir"
require "zlib"
require "gyre/cli/compress"
require "gyre/http"

class HTTPFilesPrecompressTest < Minitest::Test
  TEXT = ("text " * 1000).freeze

  def test_text_is_compressed_once_and_sent_so_by_a_root
    within("a/app.js" => TEXT, "a.png" => TEXT, "small.txt" => "x" * 1023, "random.txt" => Random.new(1).bytes(4096)) do |folder|
      File.symlink("a/app.js", "#{folder}/link.js")
      File.chmod(0o640, "#{folder}/a/app.js")
      assert_equal ["#{folder}/a/app.js"], compress(folder)
      assert_empty compress(folder)
      assert_equal %w[a.png a/app.js a/app.js.gz link.js random.txt small.txt], names(folder)
      assert_equal [TEXT, 0o640], [Zlib.gunzip(File.binread("#{folder}/a/app.js.gz")), File.stat("#{folder}/a/app.js.gz").mode & 0o777]
      root = Gyre::HTTP::Files::Root.new(folder)
      root.find("a/app.js", "gzip", 0.0) { |variant, file| file&.close || assert_equal("gzip", variant.headers["content-encoding"]) }
      root.close
    end
  end

  def test_a_changed_file_is_compressed_again_also_if_that_is_no_smaller
    within("app.js" => TEXT) do |folder|
      compress(folder)
      ["#{TEXT}more", Random.new(2).bytes(2048)].each_with_index do |text, index|
        File.binwrite("#{folder}/app.js", text)
        File.utime(Time.now, Time.now + 10 + index, "#{folder}/app.js")
        compress(folder)
        assert_equal text.b, Zlib.gunzip(File.binread("#{folder}/app.js.gz"))
      end
    end
  end

  def test_a_file_that_cannot_be_written_leaves_nothing_and_names_its_path
    within("app.js" => TEXT) do |folder|
      Dir.mkdir("#{folder}/app.js.gz")
      File.utime(Time.now, Time.now - 60, "#{folder}/app.js.gz")
      error = assert_raises(SystemCallError) { compress(folder) }
      assert_includes error.message, "app.js.gz"
      assert_equal %w[app.js app.js.gz], names(folder)
    end
  end

  def test_the_command_tells_how_many_and_refuses_what_is_no_folder
    within("app.js" => TEXT) do |folder|
      out, err = StringIO.new, StringIO.new
      run = ->(*words) { Gyre::CLI.start(["compress", *words], out: out, err: err) }
      assert_equal [0, 1], [run[folder], run["#{folder}/none"]]
      assert_equal "#{folder}: 1 compressed\n", out.string
      assert_match(/\Agyre compress: .*none is not a folder: /, err.string)
    end
  end

  private

  def compress(folder) = Gyre::HTTP::Files::Precompress.call(folder, codings: ["gzip"])

  def names(folder) = Dir.glob("**/*", base: folder).select { |name| name.include?(".") }.sort

  def within(files)
    Dir.mktmpdir do |folder|
      files.each do |name, content|
        FileUtils.mkdir_p(File.dirname("#{folder}/#{name}"))
        File.binwrite("#{folder}/#{name}", content)
      end
      yield folder
    end
  end
end
