# frozen_string_literal: true

# rack.input for Rack 2, Rails, Sinatra, Grape, Hanami and Roda.

require "test_helper"
require "gyre/http/rewindable_input"
require "gyre/http/rack2"

class HTTPRewindableInputTest < Minitest::Test
  # Gives pieces of a body, as a connection does.
  class Pieces
    def initialize(*pieces)
      @pieces = pieces.map(&:b)
    end

    def read_body(max_bytes)
      piece = @pieces.shift or return
      @pieces.unshift(piece.byteslice(max_bytes..-1)) if piece.bytesize > max_bytes
      piece.byteslice(0, max_bytes)
    end
  end

  def input(*pieces)
    Gyre::HTTP::RewindableInput.new(Gyre::HTTP::Input.new(Pieces.new(*pieces)))
  end

  def test_only_apps_that_expect_to_rewind_get_it
    app = ->(env) { env["rack.input"] }
    assert_same app, Gyre::HTTP::RewindableInput.around(app)
    %i[ActionDispatch Sinatra Grape Hanami Roda].each do |framework|
      rewinds = within(framework) { Gyre::HTTP::RewindableInput.around(app) }
      assert_same Gyre::HTTP::Input::EMPTY, rewinds.call({ "rack.input" => Gyre::HTTP::Input::EMPTY })
      env = { "rack.input" => Gyre::HTTP::Input.new(Pieces.new("a=b")), "rack.response_finished" => [] }
      body = rewinds.call(env)
      assert_equal %w[a=b a=b], Array.new(2) { body.read.tap { body.rewind } }
      env["rack.response_finished"].each { |callable| callable.call(env, 200, {}, nil) }
    end
  end

  def within(framework)
    Object.const_set(framework, Module.new)
    yield
  ensure
    Object.send(:remove_const, framework)
  end

  def test_it_reads_as_an_io
    body = input("ab", "cd\ne")
    assert_equal "a", body.read(1)
    buffer = +"x"
    assert_same buffer, body.read(2, buffer)
    assert_equal "bc", buffer
    assert_equal "d\n", body.gets
    assert_equal "e", body.read
    assert_equal ["", nil, nil], [body.read, body.read(1), body.gets]
    assert_equal Encoding::BINARY, body.read.encoding
    assert_raises(ArgumentError) { body.read(-1) }
  end

  def test_it_rewinds_from_anywhere
    body = input("ab", "c\nd")
    assert_equal "abc", body.read(3)
    body.rewind
    assert_equal "abc\nd", body.read
    body.rewind
    assert_equal %W[abc\n d], body.each.to_a
    body.rewind
    assert_equal "ab", body.readpartial(2)
    body.rewind
    assert_equal "abc\nd", body.readpartial(100)
    assert_raises(EOFError) { body.readpartial(1) }
  end

  def test_its_size_is_the_bodys_and_the_position_stays
    body = input("ab", "cde")
    assert_equal "a", body.read(1)
    assert_equal 5, body.size
    assert_equal "bcde", body.read
  end

  def test_a_large_body_goes_to_a_file
    large = "0123456789" * 50_000
    body = input(large)
    assert_equal large, body.read
    body.rewind
    assert_equal large[0, 70_000], body.read(70_000)
    assert_equal large[70_000..-1], body.read
    assert_instance_of Tempfile, body.instance_variable_get(:@kept)
    body.discard
  end

  def test_after_closing_nothing_is_left
    body = input("abc")
    body.close
    assert_equal "", body.read
    assert_raises(EOFError) { body.readpartial(1) }
    body.discard
  end
end
