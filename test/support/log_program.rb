# frozen_string_literal: true

# A log server in a process of its own: `ruby test/support/log_program.rb SETTINGS`, where SETTINGS
# is JSON with the keyword settings of Gyre::Log::Server. It prints its port, what it reports of
# itself goes to standard error, and USR2 restarts the same program; "check": "why not" forbids
# that. For tests that send signals; LogProgram starts and talks to it.
require "json"
require "gyre/cli/log/handover"
require "gyre/log/server"

settings = JSON.parse(ARGV.fetch(0), symbolize_names: true)
check = settings.delete(:check)
command = [{ "RUBYOPT" => nil }, RbConfig.ruby, *$LOAD_PATH.grep(/lib\z/).map { |path| "-I#{path}" }, $PROGRAM_NAME, *ARGV]
server = Gyre::Log::Server.new(report: $stderr, restart: ->(_inputs) { check || command }, handover: Gyre::CLI::Log::Handover.receive, **settings)
$stdout.sync = true
exit(server.run { |running| $stdout.write("#{running.endpoints.first.port} #{Process.pid}\n") })
