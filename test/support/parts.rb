# frozen_string_literal: true

# The test files that a run of all tests leaves out: they take a minute each, or a program of 100 MB
# that nothing else needs. `rake test:<part>` runs one part, and so does naming its files; .ci/run
# --all runs a bounded sample of each.
module GyreTest
  # By the name of their Rake task.
  PARTS = {
    "acme" => %w[test/web/acme/storm_test.rb],
    "analogger" => %w[test/log/analogger_gem_test.rb test/log/faults_test.rb],
    "browser" => %w[test/showcase/page_test.rb test/http/h2/browser_test.rb test/websocket/browser_test.rb],
    "apache" => %w[test/http/client/apache_test.rb],
    "churn" => %w[test/websocket/churn_test.rb],
    "churn:client" => %w[test/http/client/churn_test.rb],
    "crash" => %w[test/log/crash_test.rb test/log/output/crash_test.rb],
    "frameworks" => %w[cable_pool cable_restarts cable_sockets cable differential frameworks rails routes thin]
      .map { |name| "test/frameworks/#{name}_test.rb" },
    "first_minutes" => %w[test/first_minutes_test.rb],
    "gem" => %w[test/gem_test.rb],
    "restarts" => %w[test/cluster/many_restarts_test.rb test/cluster/restarts_test.rb],
    "soak" => %w[test/web/soak_test.rb],
    "jruby" => %w[test/jruby_test.rb],
    "websockets" => %w[test/websocket/python_test.rb],
    "storm" => %w[h2_streams hand_offs interrupt_storm log_ingest ractors trees].map { |name| "test/stress/#{name}_test.rb" }
  }.freeze
  # What .ci/run asks on 4.0 alone (GYRE_TEST_RUBY): figures, the code's own order, C code whose
  # input is bytes, programs in plain C, and whole programs of many processes, of which one file of
  # each kind stays. With --all 3.1 has them, too.
  NO_RUBY = %r{\Atest/(?:bench|conformance|oracle|showcase)/|\Atest/showcase_test|
               \Atest/cluster/(?!cluster_test)|\Atest/lifetime/servers_test|
               \Atest/cli/(?:log/(?:reopen|send|status|tail)|process/service_manager|ctl|top)_test|
               \Atest/tidy_test|\Atest/websocket/(?:autobahn|input)_test|
               \Atest/(?:dns/wire|http/admission|http/h2/session|memcached/wire|net/shares)_test|
               \Atest/loop/(?:backend_contract|busy_poll|deferred|libkqueue_faults|reports|timer_heap)_test}x
  # Minitest's option for the same: a backend is plain C, too, and each Ruby has it behind epoll.
  NO_RUBY_TESTS = %w[--exclude /\A(?:Scheduler|Loop)\w*::IoUring#/].freeze
  # The same for what Ruby's versions rarely change. The rest is next to Ruby's own code: hooks,
  # sockets, TLS, tasks, and HTTP by its contracts.
  SAME_ON_EACH_RUBY = %r{\Atest/(?:bench|broadcast|cli|conformance|dns|docs|event_machine|http|live|oracle|rack2|showcase|sse|support|websocket)/|
                         \Atest/(?:async|broadcast|examples|live|native|rails|showcase|sse|tidy)_test|\Atest/async/(?!selector)|
                         \Atest/web/(?!serve_test|tls_serve_test)|
                         \Atest/log/(?!client_test|server_test)|
                         \Atest/contracts/(?:log_ingest_(?:cases|line|syslog)|memcached)|
                         \Atest/memcached/(?!client_test)}x
end
