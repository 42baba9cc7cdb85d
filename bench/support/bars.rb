# frozen_string_literal: true

# Draws README's picture: bars of what a request and an idle connection cost each server, from the
# results of bench/http. Written with them, and by `rake docs:figures`. The SVG has its own ground
# and colours for light and dark.

require_relative "markdown"
require_relative "result_file"

module Bench
  # One SVG of two panels.
  class Bars
    # heading: what the bars show; table, column: where they come from; decimals of their labels
    Panel = Struct.new(:heading, :table, :column, :decimals)
    PANELS = [Panel.new("Server CPU a request, µs", "Hello, 64 connections", "server CPU", 1),
              Panel.new("Memory of an idle connection, KB", "Memory of an idle keep-alive connection", "RSS, KB a connection", 2)].freeze
    NAMES = { "nginx" => "nginx" }.freeze # the others' begin with a capital
    OURS = "gyre"

    WIDTH = 800
    PANEL_WIDTH = WIDTH / PANELS.size
    MARGIN = 20
    ROW = 26
    BAR = 16
    NAME_WIDTH = 56
    LABEL_WIDTH = 52
    TOP = 52
    LEAST = 2 # pixels of a bar

    # Returns where the picture lies.
    def self.path = File.join(ResultFile::FOLDER, "http.svg")

    # Draws the picture of the results that are quoted.
    def self.write
      File.write(path, new(ResultFile.new(File.read(ResultFile.path("http", ResultFile::QUOTED_RUBY)))).svg)
    end

    def initialize(results)
      @results = results
    end

    def svg
      panels = PANELS.map { |panel| [panel, figures(panel)] }
      @height = TOP + (panels.map { |_, figures| figures.size }.max * ROW) + 40
      <<~SVG
        #{head(panels)}
          <style>
            .ground { fill: #ffffff; stroke: #d0d7de } text { fill: #1f2328; font: 13px system-ui, "Helvetica Neue", Arial, sans-serif }
            .heading { font-weight: 600 } .value { font-variant-numeric: tabular-nums } .note { fill: #59636e; font-size: 12px }
            .bar { fill: #8c959f } .ours { fill: #0969da } .own { font-weight: 600 }
            @media (prefers-color-scheme: dark) {
              .ground { fill: #0d1117; stroke: #3d444d } text { fill: #f0f6fc } .note { fill: #9198a1 }
              .bar { fill: #656c76 } .ours { fill: #4493f8 }
            }
          </style>
          <rect class="ground" x="0.5" y="0.5" width="#{WIDTH - 1}" height="#{@height - 1}" rx="6"/>
        #{panels.each_with_index.map { |(panel, figures), index| panel(panel, figures, index * PANEL_WIDTH) }.join("\n")}
          #{text(MARGIN, @height - 14, note, 'note')}
        </svg>
      SVG
    end

    private

    def head(panels)
      said = panels.map { |panel, figures| "#{panel.heading}: #{figures.map { |name, value| "#{label(name)} #{show(value, panel)}" }.join(', ')}" }
      <<~SVG.chomp
        <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 #{WIDTH} #{@height}" width="#{WIDTH}" height="#{@height}" role="img">
          <title>#{escape(said.join('. '))}</title>
      SVG
    end

    def figures(panel)
      table = @results.tables.find { |one| one.heading == panel.table || one.heading.start_with?("#{panel.table} (") }
      raise Problem, "the results have no table #{panel.table.inspect}" unless table

      table.rows.keys.to_h { |name| [name, @results.figure(table.heading, name, panel.column).value] }
    end

    def panel(panel, figures, left)
      room = PANEL_WIDTH - (2 * MARGIN) - NAME_WIDTH - LABEL_WIDTH
      rows = figures.each_with_index.map do |(name, value), index|
        row(name, value, panel, left + MARGIN, TOP + (index * ROW), value / figures.values.max * room)
      end
      [text(left + MARGIN, 32, panel.heading, "heading"), *rows].join("\n").gsub(/^ */, "  ")
    end

    def row(name, value, panel, left, top, width)
      width = [width, LEAST].max.round(1)
      own = " own" if name == OURS
      base = top + 13
      <<~SVG.chomp
        #{text(left, base, label(name), "name#{own}")}
        <rect class="bar#{' ours' if own}" x="#{left + NAME_WIDTH}" y="#{top}" width="#{width}" height="#{BAR}" rx="2"/>
        #{text((left + NAME_WIDTH + width + 6).round(1), base, show(value, panel), "value#{own}")}
      SVG
    end

    def text(left, base, text, kind) = %(<text class="#{kind}" x="#{left}" y="#{base}">#{escape(text)}</text>)
    def show(value, panel) = Markdown.number(value.round(panel.decimals), panel.decimals)
    def label(name) = NAMES.fetch(name, name.capitalize)
    def note = "A “hello” over 64 keep-alive connections, and 10,000 idle ones; Ruby #{@results.ruby} with YJIT, one worker each. Shorter is better."
    def escape(text) = text.gsub("&", "&amp;").gsub("<", "&lt;")
  end
end
