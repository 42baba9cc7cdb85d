# frozen_string_literal: true

# The files of a profile: pprof, read by the format's description alone, and collapsed stacks.

require "test_helper"
require "gyre/profile"
require "support/pprof"

class ProfilePprofTest < Minitest::Test
  FRAMES = [[nil, nil, nil], ["GET /posts/:id", nil, nil], ["<main>", "app.rb", 1], ["Foo#bar;baz\n", "déjà vu.rb", 12],
            ["(garbage collection)", nil, nil]].freeze
  NODES = [[0, 0, 0, 0], [0, 1, 0, 0], [1, 2, 0, 0], [2, 3, 300, 3_000_000_000_000], [3, 4, 0, 5_000_000], [0, 0, 0, 0],
           [5, 2, 2, 20_000_000]].freeze
  PROFILE = Gyre::Profile.new(2.5, FRAMES, NODES)

  def test_a_file_of_pprof_has_stacks_with_their_route
    file = GyreTest::Pprof.read(PROFILE.pprof)
    assert_equal [%w[samples count], %w[cpu nanoseconds]], file.types
    assert_in_delta 2.5, file.seconds
    main, bar, gc = [["<main>", "app.rb", 1], ["Foo#bar;baz\n", "déjà vu.rb", 12], ["(garbage collection)", "", 0]].map do |each|
      GyreTest::Pprof::Frame.new(*each)
    end
    route = { "route" => "GET /posts/:id" }
    assert_equal [[[bar, main], 300, 3_000_000_000_000, route], [[gc, bar, main], 0, 5_000_000, route], [[main], 2, 20_000_000, {}]],
                 file.samples.map(&:to_a)
  end

  def test_collapsed_stacks_have_a_line_each
    assert_equal ["GET /posts/:id;<main> (app.rb:1);Foo#bar,baz  (déjà vu.rb:12) 3000000000",
                  "GET /posts/:id;<main> (app.rb:1);Foo#bar,baz  (déjà vu.rb:12);(garbage collection) 5000", "<main> (app.rb:1) 20000"],
                 PROFILE.collapsed.lines(chomp: true)
  end

  def test_an_empty_profile_has_files_too
    empty = Gyre::Profile.new(1)
    assert_empty GyreTest::Pprof.read(empty.pprof).samples
    assert_empty empty.collapsed
    assert_includes empty.html, "</html>"
  end
end
