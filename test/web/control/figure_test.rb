# frozen_string_literal: true

# Gyre::Web::Figure: each figure of a snapshot has one row, and each row is in the guide.

require "test_helper"
require "net/http"
require "support/figures_guide"
require "gyre/web"

class WebFigureTest < Minitest::Test
  Figure = Gyre::Web::Figure
  # Values of a snapshot that are not figures.
  OTHERS = %w[version ruby pid time urls bounds_s slowest cable fibers].freeze

  def test_every_value_of_a_snapshot_has_a_row_and_every_row_a_value
    server = Gyre::Web::Server.new(->(_env) { [200, {}, []] }, bind: "tcp://127.0.0.1:0").start
    Net::HTTP.get(URI(server.urls.first))
    snapshot = server.snapshot
    rows = Figure::ALL.map { |figure| figure.path.first }
    assert_empty snapshot.keys - rows - OTHERS
    assert_empty rows - snapshot.keys - %w[dns cable]
    assert_empty Figure::COLUMNS.map { |column| column.path.first } - snapshot.keys
  ensure
    server&.stop
    server&.wait
  end

  def test_the_guide_has_the_table_of_the_figures
    guide = File.read(GyreTest::FiguresGuide::PATH, encoding: "UTF-8")
    assert_equal GyreTest::FiguresGuide.filled(guide), guide, "run rake docs:metrics"
  end
end
