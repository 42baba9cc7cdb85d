# frozen_string_literal: true

# The showcase: one page whose parts each show one thing that an evented server is good at.
#
#     gyre serve examples/showcase/config.ru        then open http://127.0.0.1:9292
#
# A plain Rack 3 app, without a framework and without a gem but Gyre. Start reading in lib/showcase.rb.

require_relative "lib/showcase"

run Showcase::App.new
