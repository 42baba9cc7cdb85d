# frozen_string_literal: true

# docs/configuration.md, written from the tables of settings. `rake docs:configuration` writes the
# file, test/web/settings_test.rb compares it.

require "gyre/cli/dns/serve"
require "gyre/cli/log/configuration"
require "gyre/dns/settings"
require "gyre/memcached/options"
require "gyre/web/settings"

module GyreTest
  # The guide as text.
  module ConfigurationGuide
    PATH = File.expand_path("../../docs/configuration.md", __dir__)
    HEAD = <<~TEXT
      # Every setting

      This page is made from the tables that the programs read (`rake docs:configuration`). Sizes may be written as `"64k"` or `"10M"`,
      times as seconds or `"2 minutes"`; timeouts also as `"none"`.

      ## gyre serve

      Each setting is a word of `config/gyre.rb`; where there is a flag, the flag wins. [serve.md](serve.md) describes what they do.
      Settings of the groups from "Files and compression" to "Limits" are also keywords of `Gyre::Web::Server` and options of `rackup -O`.

      ```ruby
      bind "tcp://0.0.0.0:9292"
      static "public", immutable: true
      shutdown_timeout "1 minute"
      keep_alive_timeout 20
      ```
    TEXT

    LOG_HEAD = <<~TEXT
      ## gyre log

      Keys of the YAML file of `-c`; [log.md](log.md#the-configuration) has examples. The first groups are flags, too, and a flag wins.
    TEXT

    module_function

    def text = [HEAD, *web, LOG_HEAD, *log, *dns, *memcached].join("\n")

    def dns
      ["## gyre dns\n\nFlags; [dns.md](dns.md#gyre-dns) has examples. The limits are also keywords of `Gyre::DNS.run`.\n",
       *[Gyre::CLI::DNS::Serve::SETTINGS, Gyre::DNS::SETTINGS].flat_map(&:groups).flat_map(&:to_a)
                                                              .map { |heading, rows| section(heading, rows, flags: true) }]
    end

    def log
      groups = Gyre::CLI::Log::Configuration::SETTINGS.groups
      groups.map { |heading, rows| section(heading || "Only in the file", rows, flags: !heading.nil?) } + [
        section("logs", Gyre::CLI::Log::Configuration::LOG, "Each entry; what is not set is as at the top."),
        *options_of_outputs, section("rotate", Gyre::Log::Rotation::Policy::SETTINGS),
        section("inputs", Gyre::Log::Inlet::SETTINGS, "Each entry."), section("tls", Gyre::Log::TLS_SETTINGS),
        section("limits", Gyre::Log::Limits::TABLE)
      ]
    end

    def options_of_outputs
      kinds = Gyre::Log::Output::KINDS.select { |kind| kind.const_defined?(:OPTIONS) && !kind::OPTIONS.nil? }
      kinds.map { |kind| section("options of #{kind.name[/(\w+)Output\z/, 1]}", kind::OPTIONS) }
    end

    def memcached
      ["## Gyre::Memcached::Client\n\nKeywords; [memcached.md](memcached.md) compares them with Dalli's.\n",
       *Gyre::Memcached::Options::SETTINGS.groups.map { |heading, rows| section(heading, rows) }]
    end

    def web
      groups = Gyre::Web::SETTINGS.groups.reject { |heading, _| heading.nil? || heading.start_with?("Limits") }
      [
        *groups.map { |heading, rows| section(heading.sub(/ \(.*/, ""), rows, flags: true) },
        section("Limits", Gyre::HTTP::Limits::TABLE, flags: true) { |row| beyond(row) },
        section("Folders", Gyre::Web::Folder::SETTINGS,
                "Options of `static` and `sendfile`: `static \"public\", at: \"/files\"`, `--static 'public?at=/files'`."),
        section("TLS", Gyre::Web::Addresses::CERTIFICATE,
                "Of an address, `bind \"ssl://*:443?cert=PATH&key=PATH\"`, or of the word `tls`, `tls \"example.org\", cert: PATH, key: PATH`."),
        section("Hooks", Gyre::Web::SETTINGS.groups.fetch(nil),
                "Words only. A hook takes a block, which may take the worker's number: `after_fork { |number| … }`.") do |row|
          "also #{row.also.map { |name| "`#{name}`" }.join(", ")}" if row.also.any?
        end,
        foreign
      ]
    end

    # Beyond these limits bytes, requests or streams wait, and the connection stays.
    OPEN = %i[body_ahead_bytes_limit output_bytes_limit requests_limit streams_limit
              stream_window_bytes_limit connection_window_bytes_limit].freeze

    def beyond(row)
      "beyond it: #{row.status || "the connection closes"}" unless OPEN.include?(row.name) || row.name.start_with?("websocket_")
    end

    def foreign
      rows = Gyre::Web::SETTINGS.foreign.group_by(&:last).map { |advice, words| [words.map { |word, _| "`#{word}`" }.join(", "), advice] }
      "### Words of other servers\n\nThey are refused with this advice.\n\n#{table(%w[word advice], rows)}"
    end

    # The block adds to a row's meaning.
    def section(heading, rows, text = nil, flags: false)
      cells = rows.map do |row|
        more = yield row if block_given?
        flag = "`#{[*row.short, row.flag].join("`, `")}`" if flags
        value = row.section? || row.argument.nil? ? row.expected : row.argument.delete("[]")
        ["`#{row.word}`", *flag, row.default_text, value, [row.text, *more].join("; ")]
      end
      "### #{heading}\n\n#{"#{text}\n\n" if text}#{table(["setting", *("flag" if flags), "default", "value", "meaning"], cells)}"
    end

    def table(head, rows)
      lines = [head, head.map { "---" }, *rows].map { |cells| "| #{cells.map { |cell| cell.to_s.gsub("|", "\\|") }.join(" | ")} |" }
      "#{lines.join("\n").gsub("|  |", "| |").gsub("| --- ", "|---").gsub("--- |", "---|")}\n"
    end
  end
end
