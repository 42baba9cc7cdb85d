# frozen_string_literal: true

# Folders as they are written: Gyre::Web::Folder.

require "test_helper"
require "gyre/web/settings"

class WebFolderTest < Minitest::Test
  Folder = Gyre::Web::Folder

  def test_options_stand_after_a_question_mark
    folder = Folder.parse("public?at=/files&immutable&index=true&dot-files=false&cache_control=no-cache")
    assert_equal "public", folder.path
    assert_equal({ at: "/files", immutable: true, index: true, dot_files: false, cache_control: "no-cache" }, folder.options)
    assert_equal Folder.parse("public", at: "/x"), Folder.parse("public?at=/x")
    assert_same folder, Folder.parse(folder)
  end

  def test_what_cannot_be_is_refused
    { "public?listing" => "listing: unknown option of a folder; known: at, index", "public?index=maybe" => "index: must be true or false",
      "" => "must be a path",
      "public?at" => "at: must be text" }.each do |text, message|
      assert_includes assert_raises(ArgumentError) { Folder.parse(text) }.message, message
    end
  end
end
