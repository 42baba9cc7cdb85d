# frozen_string_literal: true

module GyreConformance
  # Files of EventMachine's tests that do not pass on Gyre, and why. Each fails with EventMachine
  # itself, too.
  EVENTMACHINE_EXCEPTIONS = {
    "test_httpclient.rb" => "asks google.com; one of eight gets a body without its end, which is an error here",
    "test_httpclient2.rb" => "asks google.com",
    "test_resolver.rb" => "asks a name server for google.com",
    "test_ssl_ecdh_curve.rb" => "one of two wants no ECDHE without a named curve; libssl has had curves of its own since 1.1",
    "test_ssl_protocols.rb" => "six of ten want SSL 3, or a client of TLS 1.0; libssl has neither at its usual level of security"
  }.freeze

  # The same of its master branch, where EventMachine passes all but the first three.
  EVENTMACHINE_MASTER_EXCEPTIONS = {
    "test_httpclient.rb" => "asks google.com; one of eight gets a body without its end, which is an error here",
    "test_httpclient2.rb" => "asks google.com",
    "test_resolver.rb" => "asks name servers for example.com and yahoo.com",
    "test_ssl_dhparam.rb" => "one of four wants parameters of libssl's own, where the tests of 1.2.7 want a refusal",
    "test_ssl_extensions.rb" => "one of two wants TLS 1.3 of a server that names no version; see above",
    "test_ssl_protocols.rb" => "one of 17 wants TLS 1.3 of a server that names no version; see above"
  }.freeze

  # Those that take a moment: for each run of CI.
  EVENTMACHINE_SAMPLE = %w[test_attach.rb test_basic.rb test_connection_count.rb test_defer.rb test_epoll.rb test_exc.rb test_fork.rb
                           test_next_tick.rb test_pause.rb test_processes.rb test_proxy_connection.rb test_pure.rb test_send_file.rb
                           test_ssl_args.rb test_ssl_methods.rb test_ssl_verify.rb test_timers.rb].freeze
end
