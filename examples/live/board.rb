# frozen_string_literal: true

# Four in a Row, which all open pages play together: red against gold, as many hands on each side
# as there are visitors. A click of one changes the board of all.

require "gyre/live"
require_relative "four_in_a_row"

# The page. Game and visitors are this process's; with workers they belong in a database.
class Board < Gyre::Live
  NAMES = %w[Ada Grace Alan Edsger Barbara Donald Frances Niklaus].freeze
  NAME_LENGTH = 20

  @game = FourInARow.new
  @pages = []
  @news = []

  class << self
    attr_reader :pages

    attr_accessor :game, :news

    # Adds a line for all pages.
    def tell(line)
      @news = [line, *@news].first(4)
      Gyre::Broadcast.publish("board", "")
    end

    # Returns the side that has fewer visitors. A page that has just come has none yet.
    def weaker_side = FourInARow::SIDES.min_by { |side| pages.count { |page| page.on?(side) } }
  end

  keep :name, :side

  # Drawn once and then kept: a page keeps only what mount leaves as it was.
  def name = @name ||= NAMES.sample
  def side = @side ||= Board.weaker_side
  def on?(side) = @side == side

  def mount(_env)
    return unless connected?

    Board.pages << self
    subscribe("board")
    Board.tell("Somebody has come.")
  end

  def unmount
    Board.pages.delete(self)
    Board.tell("Somebody has left.")
  end

  on(:drop) do |column|
    Board.tell("#{name} (#{side}) plays column #{Integer(column) + 1}.") if Board.game.drop(Integer(column), side)
  end

  on(:name) { |name| @name = name.strip[0, NAME_LENGTH] unless name.strip.empty? }

  on(:side) { |_| @side = (FourInARow::SIDES - [side]).first }

  on(:again) do |_|
    Board.game = FourInARow.new
    Board.tell("#{name} begins a new game.")
  end

  def status
    game = Board.game
    return "#{game.winner.capitalize} has won." if game.winner
    return "Nobody has won." if game.over?

    game.turn == side ? "Your move." : "#{game.turn.capitalize} is to move."
  end

  def visitors
    FourInARow::SIDES.map { |side| "#{Board.pages.count { |page| page.side == side }} × #{side}" }.join(", ")
  end

  def disc(column, row)
    place = [column, row]
    marks = [Board.game.at(column, row), ("last" if place == Board.game.last), ("four" if Board.game.four.include?(place))]
    marks.compact.join(" ")
  end

  template <<~'ERB'
    <style>
      .four { --board: #2b5797; --hole: #e9eef6; --red: #d1372c; --gold: #e8b021; font: 1rem/1.5 system-ui, sans-serif; max-width: 30rem; margin: 0 auto; }
      @media (prefers-color-scheme: dark) { .four { --board: #274a7c; --hole: #16202e; --red: #e5574c; --gold: #f0c04a; } }
      .four header, .four footer { display: flex; flex-wrap: wrap; gap: .5rem 1rem; justify-content: space-between; align-items: center; }
      .four h3 { margin: 0; font-size: 1.25rem; }
      .four .board { display: grid; grid-template-columns: repeat(7, 1fr); margin: .75rem 0; padding: .5rem; border-radius: .9rem; background: var(--board); }
      .four .column { display: grid; gap: .4rem; margin: 0; padding: .25rem; border: 0; border-radius: .6rem; background: none; min-height: 0; cursor: pointer; }
      .four .column:hover:enabled, .four .column:focus-visible { background: rgb(255 255 255 / 18%); filter: none; }
      .four .column:disabled { cursor: default; }
      .four i { display: block; width: 100%; aspect-ratio: 1; border-radius: 50%; background: var(--hole); }
      .four i.red { background: var(--red); }
      .four i.gold { background: var(--gold); }
      .four i.last { box-shadow: inset 0 0 0 3px rgb(255 255 255 / 55%); }
      .four i.four { box-shadow: inset 0 0 0 5px #fff; }
      .four .you { display: inline-block; width: .9em; height: .9em; margin-right: .3em; vertical-align: -.1em; }
      .four ul { margin: .75rem 0 0; padding: 0; list-style: none; font-size: .9375rem; opacity: .8; min-height: 6em; overflow-wrap: anywhere; }
      .four footer button { font: 600 .9375rem/1 system-ui, sans-serif; min-height: 2.75rem; padding: 0 1.1rem; border: 1px solid var(--board); border-radius: 99rem; background: var(--board); color: #fff; cursor: pointer; }
      .four input { font: inherit; width: 8rem; min-height: 2.75rem; padding: 0 .6rem; box-sizing: border-box; border: 1px solid var(--board); border-radius: .5rem; background: none; color: inherit; }
      @media (max-width: 25rem) { .four .name { flex: 1 0 100%; display: flex; align-items: center; } .four .name input { flex: 1; } }
      live-view[live-offline] .four { opacity: .5; }
    </style>
    <article class="four">
    <header>
    <h3 role="status" class="status"><%= status %></h3>
    <span class="visitors"><%= visitors %></span>
    </header>
    <div class="board">
    <% FourInARow::COLUMNS.times do |column| %>
    <button class="column" live-click="drop" value="<%= column %>" aria-label="column <%= column + 1 %>" <%= "disabled" unless Board.game.turn == side && !Board.game.over? %>>
    <% (FourInARow::ROWS - 1).downto(0) do |row| %>
    <i class="<%= disc(column, row) %>"></i>
    <% end %>
    </button>
    <% end %>
    </div>
    <footer>
    <label class="name"><i class="you <%= side %>"></i><input live-change="name" value="<%= name %>" maxlength="<%= NAME_LENGTH %>" aria-label="your name"></label>
    <button live-click="side">Switch</button>
    <button live-click="again">New game</button>
    </footer>
    <ul class="news">
    <% Board.news.each do |line| %>
    <li><%= line %></li>
    <% end %>
    </ul>
    </article>
  ERB
end
