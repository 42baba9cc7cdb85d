# frozen_string_literal: true

# Two live pages, without a line of JavaScript of their own: a game that all visitors play together, and this server in figures.
#
#     gyre serve examples/live/config.ru        then open http://127.0.0.1:9292/board in several windows, and /dashboard

require_relative "board"
require_relative "dashboard"

# With a secret of your own a page keeps its name and its side when the server restarts.
Gyre::Live.secret = ENV.fetch("LIVE_SECRET") if ENV.key?("LIVE_SECRET")

map("/board") { run Board }
map("/dashboard") { run Dashboard }
map("/") { run ->(_env) { [302, { "location" => "/board" }, []] } }
