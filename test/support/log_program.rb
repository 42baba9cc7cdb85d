# frozen_string_literal: true

# A log server in a process of its own: `ruby test/support/log_program.rb SETTINGS`, where SETTINGS
# is JSON with the keyword settings of Gyre::Log::Server. It prints its port, what it reports of
# itself goes to standard error, and USR2 restarts the same program; "check": "why not" forbids
# that. For tests that send signals; LogProgram starts and talks to it.
require "json"
require "gyre/cli/process/successor"
require "gyre/log/server"

settings = JSON.parse(ARGV.fetch(0), symbolize_names: true)
check = settings.delete(:check)
command = [RbConfig.ruby, *$LOAD_PATH.grep(/lib\z/).map { |path| "-I#{path}" }, $PROGRAM_NAME, *ARGV]
successor = Gyre::CLI::Successor.new("program", command: command, environment: { "RUBYOPT" => nil })
successor.define_singleton_method(:rehearse) { |*| check }
server = Gyre::Log::Server.new(report: $stderr, successor: successor, handover: Gyre::CLI::Handover.receive, **settings)
$stdout.sync = true
exit(server.run { |running| $stdout.write("#{running.endpoints.first.port} #{Process.pid}\n") })
