# frozen_string_literal: true

# Comparisons with other programs that do the same work; what differs on purpose is in a table with
# its reason.
require "rbconfig"

namespace :compare do
  desc "Compare how rsyslogd (Debian: rsyslog; RSYSLOGD names it) and gyre log read 200 lines; SAMPLE=10 takes each tenth"
  task syslog: :compile do
    sh({ "TZ" => "UTC" }, RbConfig.ruby, "-Ilib", "test/compare/syslog.rb", chdir: GyreBuild.root)
  end
end
