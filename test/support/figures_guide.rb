# frozen_string_literal: true

# The table of metrics in docs/observe.md, written from the figures' rows. `rake docs:metrics`
# writes it, test/web/control/figure_test.rb compares it.

require "gyre/web/control/figure"

module GyreTest
  module FiguresGuide
    PATH = File.expand_path("../../docs/observe.md", __dir__)
    HEAD = "| family | type | what it is |\n|---|---|---|\n"

    module_function

    # Returns the guide with the table of now.
    def filled(guide) = guide.sub(/^#{Regexp.escape(HEAD)}(?:\|.*\n)*/) { "#{HEAD}#{rows.join}" }

    def rows
      Gyre::Web::Figure::ALL.map do |figure|
        name = "gyre_#{figure.name}#{"_total" if figure.type == :counter}#{"{#{figure.label}}" if figure.label}"
        "| `#{name}` | #{figure.type} | #{figure.help} |\n"
      end + ["| `gyre_workers` | gauge | Processes that serve. |\n", "| `gyre_info{version,ruby}` | gauge | The server's version and Ruby's. |\n"]
    end
  end
end
