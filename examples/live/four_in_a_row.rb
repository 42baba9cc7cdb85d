# frozen_string_literal: true

# The rules of Four in a Row: two sides drop discs into seven columns of six. Knows no pages.

# One game.
class FourInARow
  COLUMNS = 7
  ROWS = 6
  SIDES = %w[red gold].freeze
  DIRECTIONS = [[1, 0], [0, 1], [1, 1], [1, -1]].freeze

  # Returns the side that is to move.
  attr_reader :turn
  # Returns the last disc's [column, row], and the four that have won, if there are any.
  attr_reader :last, :four

  def initialize
    @columns = Array.new(COLUMNS) { [] } # of sides, from the bottom
    @turn = SIDES.first
    @four = []
  end

  def at(column, row) = @columns[column][row]

  # Returns whether the side may do so now.
  def drop(column, side)
    return false unless side == @turn && !over? && column.between?(0, COLUMNS - 1) && @columns[column].size < ROWS

    @columns[column] << side
    @last = [column, @columns[column].size - 1]
    @four = DIRECTIONS.map { |direction| row_through(@last, side, direction) }.find { |row| row.size >= 4 } || []
    @turn = (SIDES - [side]).first
    true
  end

  def winner = @four.any? ? at(*@four.first) : nil
  def full? = @columns.all? { |column| column.size == ROWS }
  def over? = !winner.nil? || full?

  private

  # The side's discs next to each other, both ways from a place.
  def row_through(place, side, (across, up))
    [1, -1].flat_map { |sign| run_from(place, side, across * sign, up * sign) }.uniq
  end

  def run_from((column, row), side, across, up)
    run = []
    while column.between?(0, COLUMNS - 1) && row >= 0 && at(column, row) == side
      run << [column, row]
      column += across
      row += up
    end
    run
  end
end
