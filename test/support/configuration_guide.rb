# frozen_string_literal: true

# docs/configuration.md, written from the tables of settings. `rake docs:configuration` writes the
# file, test/web/settings_test.rb compares it.

require "gyre/cli/serve"
require "gyre/http/limits"
require "gyre/web/cluster/hooks"
require "gyre/web/folder"
require "gyre/web/settings"
require "gyre/web/tls_settings"

module GyreTest
  # The guide as text.
  module ConfigurationGuide
    PATH = File.expand_path("../../docs/configuration.md", __dir__)
    # What a value of a type is, as a person writes it.
    TYPES = {
      address: "an [address](serve.md#flags)", control_address: "an address", url_path: "a path", host: "a host", port: "a port", text: "text",
      flag: "true or false",
      seconds: "seconds", span: "seconds, or `\"2 minutes\"`", bytes: "bytes, or `\"10M\"`", count: "a number",
      log_format: "a name, or [directives](observe.md#access-log)", proxy: "an address, a range, `\"private\"` or `\"loopback\"`",
      folder: "a folder, see [below](#folders)", command: "a command, as `\"bin/jobs\"`",
      tls: "see [below](#tls)", processes: "a number, or `\"auto\"`"
    }.freeze

    module_function

    # @return [String]
    def text
      [head, settings, folders, tls, hooks, limits, foreign].join("\n")
    end

    def head
      <<~TEXT
        # Configuration: every word of `config/gyre.rb`

        This page is made of the tables that the server itself reads (`rake docs:configuration`). A word with a flag can be given on the command line
        instead, and the flag wins. What the settings do is described in [serve.md](serve.md). `gyre serve --check` reports what is wrong with a file.

        ```ruby
        bind "tcp://0.0.0.0:9292"
        static "public", immutable: true
        shutdown_timeout "1 minute"
        keep_alive_timeout 20
        ```

        ## Settings
      TEXT
    end

    def settings
      help = Gyre::CLI::Serve.new.flags.help
      rows = Gyre::Web::Settings::TABLE.map do |row|
        flag = "--#{row.name.to_s.tr("_", "-")}"
        [code(row.name), help.match?(/#{flag}\b/) ? code(flag) : "", value(row.type), row.meaning]
      end
      table(%w[word flag value meaning], rows)
    end

    def folders
      "## Folders\n\nOptions of `static` and `sendfile`: `static \"public\", at: \"/files\"`, or on the command line " \
        "`--static 'public?at=/files'`.\n\n" + table(%w[option value], Gyre::Web::Folder::OPTIONS.map { |name, type| [code(name), value(type)] })
    end

    def tls
      "## TLS\n\nOf an address (`bind \"ssl://*:443?cert=PATH&key=PATH\"`), or of the word `tls` " \
        "(`tls \"example.org\", cert: PATH, key: PATH`).\n\n" +
        table(%w[setting value meaning], Gyre::Web::TLSSettings::TABLE.map { |row| [code(row.name), value(row.type), row.meaning] })
    end

    def hooks
      "## Hooks\n\nEach takes a block, which may take the worker's number: `after_fork { |number| … }`.\n\n" +
        table(["word", "also as", "runs"],
              Gyre::Web::Cluster::Hooks::TABLE.map { |row| [code(row.name), row.aliases.map { |name| code(name) }.join(", "), row.meaning] })
    end

    def limits
      "## Limits\n\n`\"none\"` switches a limit of time off.\n\n" +
        table(["word", "flag", "default", "beyond it", "bounds"],
              Gyre::HTTP::Limits::TABLE.map do |row|
                [code(row.word), code(row.flag), [row.default_text, (row.unit if row.default)].compact.join(" "),
                 row.status ? row.status.to_s : "closes", row.meaning]
              end)
    end

    def foreign
      "## Words of other servers\n\nThey are refused with this advice.\n\n" +
        table(%w[word advice], Gyre::Web::Settings::FOREIGN.map { |name, advice| [code(name), advice] })
    end

    def table(head, rows)
      lines = [head, head.map { "---" }, *rows].map { |cells| "| #{cells.map { |cell| cell.to_s.gsub("|", "\\|") }.join(" | ")} |" }
      "#{lines.join("\n").gsub("|  |", "| |").gsub("| --- ", "|---").gsub("--- |", "---|")}\n"
    end

    def value(type)
      type.is_a?(Array) ? type.map { |name| code(name) }.join(", ") : TYPES.fetch(type, type.to_s)
    end

    def code(text)
      "`#{text}`"
    end
  end
end
