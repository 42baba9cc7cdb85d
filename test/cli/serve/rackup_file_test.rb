# frozen_string_literal: true

# How an app is made from a file: Gyre::CLI::RackupFile. (Its messages: cli_test.rb.)

require "test_helper"
require "tmpdir"
require "gyre/cli/serve/rackup_file"

class CLIRackupFileTest < Minitest::Test
  def test_a_rackup_file_gives_its_app
    assert_equal [200, {}, ["hello"]], load("run ->(_env) { [200, {}, ['hello']] }").call({})
  end

  def test_no_middleware_is_added
    app = load("APP_FOR_THE_TEST = ->(_env) { }\nrun APP_FOR_THE_TEST")
    assert_same APP_FOR_THE_TEST, app
  end

  def test_a_rackup_file_is_in_utf_8_whatever_the_locale_is
    locale = Encoding.default_external
    quietly { Encoding.default_external = Encoding::US_ASCII }
    texts = load("run ->(_env) { ['\u00e9', \"\#{1} of #{"a".b}\"] }\n__END__\nnot Ruby").call({})
    assert_equal [Encoding::UTF_8, Encoding::UTF_8], texts.map(&:encoding)
  ensure
    quietly { Encoding.default_external = locale }
  end

  def test_a_ruby_file_gives_the_constant_of_its_name
    app = load("module SomeRackApp; def self.call(_env) = [200, {}, []]; end", "some_rack_app.rb")
    assert_equal "SomeRackApp", app.name
  end

  def test_what_cannot_be_loaded_is_reported
    assert_match(/no_such\.ru/, assert_raises(Gyre::StartError) { Gyre::CLI::RackupFile.load("no_such.ru") }.message)
    assert_match(/config\.ru:1/, assert_raises(Gyre::StartError) { load("run ]") }.message)
    assert_match(/no such thing/, assert_raises(Gyre::StartError) { load("raise 'no such thing'") }.message)
    assert_match(/nowhere_to_be_found/, assert_raises(Gyre::StartError) { load("require 'nowhere_to_be_found'") }.message)
  end

  def test_an_exit_in_it_is_reported_with_its_place_and_an_abort_is_left_alone
    error = assert_raises(Gyre::StartError) { load("\nexit\nrun 1") }
    assert_match(/config\.ru has ended the program: exit with status 0, at \S*config\.ru:2/, error.message)
    _, err = capture_io { assert_equal 1, assert_raises(SystemExit) { load("abort 'set DATABASE_URL first'") }.status }
    assert_equal "set DATABASE_URL first\n", err
  end

  def test_an_invalid_app_is_reported
    assert_match(/config\.ru runs "hello", which is not a Rack app/, assert_raises(Gyre::StartError) { load("run 'hello'") }.message)
  end

  private

  def quietly
    verbose, $VERBOSE = $VERBOSE, nil
    yield
  ensure
    $VERBOSE = verbose
  end

  def load(text, name = "config.ru")
    Dir.mktmpdir do |folder|
      path = File.join(folder, name)
      File.write(path, text)
      Gyre::CLI::RackupFile.load(path)
    end
  end
end
