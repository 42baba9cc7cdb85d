# frozen_string_literal: true

# This server in figures: one look at it a second, drawn as SVG on the server.

require "gyre/live"

# The page. Needs `gyre serve`, whose figures it shows; with workers, those of the one that serves
# the page.
class Dashboard < Gyre::Live
  SAMPLES = 60
  WIDTH = 240
  HEIGHT = 60
  Figure = Struct.new(:title, :unit, :key, :decimals)
  FIGURES = [
    Figure.new("Requests", "/s", :requests, 0), Figure.new("Messages", "/s", :messages, 0),
    Figure.new("Connections", "", :connections, 0), Figure.new("Open WebSockets", "", :upgraded, 0),
    Figure.new("Resident memory", " MB", :memory_mb, 1), Figure.new("Processor", " %", :cpu_percent, 1)
  ].freeze

  # Looks at the server once a second, however many pages are open.
  class Samples
    attr_reader :all

    def initialize
      @all = []
    end

    def take(server)
      now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      return if @counts && now - @counts[:at] < 0.9

      state = server.snapshot
      counts = { at: now, requests: state["requests"], messages: state["messages_received"] + state["messages_sent"],
                 cpu_s: Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) }
      @all = [*@all, sample(state, counts)].last(SAMPLES) if @counts
      @counts = counts
    end

    private

    def sample(state, counts)
      seconds = counts[:at] - @counts[:at]
      rates = %i[requests messages cpu_s].to_h { |key| [key, (counts[key] - @counts[key]) / seconds] }
      { requests: rates[:requests], messages: rates[:messages], cpu_percent: rates[:cpu_s] * 100, connections: state["connections"]["open"],
        upgraded: state["upgraded"], memory_mb: state["memory_bytes"].to_f / 1e6 }
    end
  end

  @samples = Samples.new

  class << self
    attr_reader :samples
  end

  def mount(env)
    @server = env.fetch("gyre.server") { raise "the dashboard shows the figures of `gyre serve`" }
    Dashboard.samples.take(@server)
    every(1) { Dashboard.samples.take(@server) }
  end

  def values(figure) = Dashboard.samples.all.map { |sample| sample.fetch(figure.key) }

  def shown(figure)
    value = values(figure).last or return "–"

    whole, fraction = format("%.#{figure.decimals}f", value).split(".")
    "#{[whole.gsub(/(?<=\d)(?=(\d{3})+\z)/, ","), fraction].compact.join(".")}#{figure.unit}"
  end

  # The corners of the line, the newest at the right.
  def line(figure)
    values = values(figure)
    top = [values.max || 0, 1].max.to_f
    first = SAMPLES - values.size
    values.each_with_index.map do |value, index|
      "#{((first + index) * WIDTH / (SAMPLES - 1.0)).round(1)},#{(HEIGHT - (value / top * (HEIGHT - 4))).round(1)}"
    end
  end

  def area(figure)
    corners = line(figure)
    corners.empty? ? "" : "#{corners.first[/[^,]+/]},#{HEIGHT} #{corners.join(" ")} #{WIDTH},#{HEIGHT}"
  end

  template <<~'ERB'
    <style>
      .figures-live { --line: #0d5c63; --rule: #ddd6c8; --faint: #5d6763; font: 1rem/1.4 system-ui, sans-serif; max-width: 64rem; margin: 0 auto; }
      @media (prefers-color-scheme: dark) { .figures-live { --line: #6fcdc8; --rule: #2e3836; --faint: #9ea8a3; } }
      .figures-live dl { display: grid; grid-template-columns: repeat(3, minmax(0, 1fr)); gap: 1rem; margin: 0; }
      @media (max-width: 40rem) { .figures-live dl { grid-template-columns: repeat(2, minmax(0, 1fr)); gap: .6rem; } }
      .figures-live dl > div { border: 1px solid var(--rule); border-radius: .75rem; padding: .9rem 1rem .4rem; }
      .figures-live dt, .figures-live p { color: var(--faint); font-size: .875rem; margin: 0; }
      .figures-live dd { margin: 0; font-size: 1.5rem; font-variant-numeric: tabular-nums; }
      .figures-live svg { display: block; width: 100%; height: 3.75rem; }
      .figures-live polyline { fill: none; stroke: var(--line); stroke-width: 2; vector-effect: non-scaling-stroke; stroke-linejoin: round; }
      .figures-live polygon { fill: var(--line); opacity: .14; }
      .figures-live p { margin-top: .75rem; }
      live-view[live-offline] .figures-live { opacity: .5; }
    </style>
    <article class="figures-live">
    <dl>
    <% FIGURES.each do |figure| %>
    <div>
    <dt><%= figure.title %></dt>
    <dd class="<%= figure.key %>"><%= shown(figure) %></dd>
    <svg viewBox="0 0 <%= WIDTH %> <%= HEIGHT %>" preserveAspectRatio="none" role="img" aria-label="the last minute">
    <polygon points="<%= area(figure) %>"/>
    <polyline points="<%= line(figure).join(" ") %>"/>
    </svg>
    </div>
    <% end %>
    </dl>
    <p>Gyre <%= Gyre::VERSION %> · <%= Fiber.scheduler.backend %> · Ruby <%= RUBY_VERSION %> · process <%= Process.pid %></p>
    </article>
  ERB
end
