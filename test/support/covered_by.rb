# frozen_string_literal: true

# Tests of library files that have no test of their own name, for test/tidy_test.rb: a test, and the
# files below lib/ that it covers. A new file has a test of its name: test/web/x_test.rb for
# lib/gyre/web/x.rb, or a folder test/web/x/ of tests.
module GyreTest
  COVERED_BY = {
    "test/broadcast/redis_test.rb" => %w[gyre/broadcast/carrier gyre/broadcast/listener gyre/broadcast/relay gyre/redis/connection],
    "test/broadcast/room_test.rb" => %w[gyre/broadcast/unloaded],
    "test/cli/log/configuration_test.rb" => %w[gyre/cli/log/configuration/settings],
    "test/cli/process/pidfile_test.rb" => %w[gyre/whole_file],
    "test/cli/serve_test.rb" => %w[gyre/cli/listen_errors gyre/cli/process/holdings],
    "test/cli/top_test.rb" => %w[gyre/cli/control_client gyre/cli/terminal/screen],
    "test/cluster/broadcast_test.rb" => %w[gyre/broadcast/outbox],
    "test/cluster/cluster_test.rb" => %w[gyre/cli/serve/workers gyre/cli/state_file gyre/cluster/generations gyre/cluster/member gyre/cluster/worker],
    "test/cluster/hot_restart_test.rb" => %w[gyre/cli/process/handover gyre/cli/process/launcher],
    "test/cluster/parts_test.rb" => %w[gyre/cluster/crew gyre/cluster/health gyre/cluster/hooks gyre/cluster/link gyre/cluster/process_number
                                       gyre/cluster/respawn gyre/cluster/supervisor],
    "test/contracts/memcached_client_test.rb" => %w[gyre/memcached/commands gyre/memcached/dalli gyre/memcached/dalli/client
                                                    gyre/memcached/dalli/features/dalli gyre/memcached/multi],
    "test/dns/configuration_test.rb" => %w[gyre/dns/settings],
    "test/dns/message_test.rb" => %w[gyre/dns/codes],
    "test/dns/host_names_test.rb" => %w[gyre/scheduler/host_names],
    "test/dns/rules_test.rb" => %w[gyre/dns/transaction],
    "test/dns/server_test.rb" => %w[gyre/dns/sockets],
    "test/dns/upstream_test.rb" => %w[gyre/dns/query gyre/dns/server_address],
    "test/dns/zone_file_test.rb" => %w[gyre/dns/dig_text],
    "test/event_machine/connection_test.rb" => %w[gyre/event_machine/locals gyre/event_machine/sockets gyre/event_machine/descriptors/stream],
    "test/event_machine/descriptors_test.rb" => %w[gyre/event_machine/descriptor gyre/event_machine/descriptors/sockets
                                                   gyre/event_machine/descriptors/watched gyre/event_machine/files],
    "test/event_machine/examples_test.rb" => %w[gyre/event_machine/features/eventmachine],
    "test/event_machine/line_text2_test.rb" => %w[gyre/event_machine/protocols/lines],
    "test/event_machine/memcache_test.rb" => %w[gyre/event_machine/protocols/memcache],
    "test/event_machine/peers_test.rb" => %w[gyre/event_machine/proxies],
    "test/event_machine/protocols_test.rb" => %w[gyre/event_machine/protocols/http_client gyre/event_machine/protocols/sized_fields
                                                 gyre/event_machine/protocols/smtp_client gyre/event_machine/protocols/smtp_server
                                                 gyre/event_machine/protocols/stomp],
    "test/event_machine/reactor_test.rb" => %w[gyre/event_machine/running gyre/event_machine/ticks gyre/event_machine/timers
                                               gyre/event_machine/tuning],
    "test/event_machine/tools_test.rb" => %w[gyre/event_machine/deferrable gyre/event_machine/iterator gyre/event_machine/processes
                                             gyre/event_machine/queues gyre/event_machine/resolver gyre/event_machine/threads],
    "test/frameworks/cable_sockets_test.rb" => %w[action_cable/subscription_adapter/gyre gyre/web/frameworks/cable/socket
                                                  gyre/web/frameworks/cable/stream],
    "test/frameworks/rails_test.rb" => %w[gyre/capybara],
    "test/gem_test.rb" => %w[gyre/core gyre/version],
    "test/http/client/connections_test.rb" => %w[gyre/http/client/h1_connection gyre/http/client/multipart],
    "test/http/client/contract_test.rb" => %w[gyre/http/client/limits gyre/http/client/report],
    "test/http/client/cookies_test.rb" => %w[gyre/http/client/public_suffixes],
    "test/http/client/request_test.rb" => %w[gyre/http/client/app],
    "test/http/client/cuts_test.rb" => %w[gyre/http/client/errors],
    "test/http/files/precompress_test.rb" => %w[gyre/cli/compress],
    "test/http/server_test.rb" => %w[gyre/http/namespace],
    "test/inspection/hierarchy_test.rb" => %w[gyre/inspection/wait],
    "test/live_test.rb" => %w[gyre/live/markup gyre/live/page gyre/live/state],
    "test/log/client/backlog_test.rb" => %w[gyre/log/client/adoption gyre/log/client/delivery],
    "test/log/client_test.rb" => %w[gyre/log/client/address gyre/log/client/dialer gyre/log/client/options gyre/log/client/sender
                                    gyre/log/client/sending gyre/log/client/server_connection gyre/log/client/transmission],
    "test/log/disk_queue_test.rb" => %w[gyre/log/disk_queue/segment gyre/log/ownership],
    "test/log/full_disk_test.rb" => %w[gyre/log/disk],
    "test/log/output/file_output_test.rb" => %w[gyre/log/output/file_output/open_file gyre/log/output/writing],
    "test/log/output_test.rb" => %w[gyre/log/output/defaults],
    "test/log/several_servers_test.rb" => %w[gyre/net/reconnecting_socket gyre/net/retry],
    "test/log/server/committer_test.rb" => %w[gyre/log/server/committer/output_writer],
    "test/log/server/rates_test.rb" => %w[gyre/log/server/hub],
    "test/log/server_signals_test.rb" => %w[gyre/log/server/lifecycle],
    "test/log/server_test.rb" => %w[gyre/log/errors gyre/log/server/connection gyre/log/server/routing],
    "test/loop_test.rb" => %w[gyre/loop/closing gyre/loop/helpers gyre/loop/keyed_watch gyre/loop/portable gyre/loop/portable_keyed
                              gyre/loop/traps],
    "test/loop/subclass_test.rb" => %w[gyre/loop/overrides],
    "test/memcached/rack_session_test.rb" => %w[gyre/memcached/dalli/features/rack/session/dalli],
    "test/memcached/several_servers_test.rb" => %w[gyre/memcached/errors gyre/memcached/server],
    "test/net/tls_test.rb" => %w[gyre/net/tls_settings],
    "test/offload_test.rb" => %w[gyre/offload/job gyre/offload/priority],
    "test/lifetime/servers_test.rb" => %w[gyre/cli/process/absent_steps gyre/cluster/runner gyre/web/lifetime],
    "test/scheduler_test.rb" => %w[gyre/scheduler/fiber_raise gyre/scheduler/fork gyre/scheduler/interrupt_masks gyre/scheduler/pacing
                                   gyre/scheduler/pooled_fiber gyre/scheduler/portable/fibers gyre/scheduler/portable/waiter],
    "test/async/running_test.rb" => %w[gyre/scheduler/async_guests],
    "test/settings_test.rb" => %w[gyre/settings/row],
    "test/sync/selection_test.rb" => %w[gyre/sync/selection/cases],
    "test/testing_test.rb" => %w[gyre/testing/simulation],
    "test/web/acme_test.rb" => %w[gyre/web/acme/key gyre/web/acme/store],
    "test/web/control/app_test.rb" => %w[gyre/web/control/server],
    "test/web/layers/cache_test.rb" => %w[gyre/web/layers/cached_response],
    "test/web/server_test.rb" => %w[gyre/web/addresses gyre/web/listening],
    "test/websocket/client_test.rb" => %w[gyre/websocket/addresses],
    "test/websocket/socket_test.rb" => %w[gyre/websocket/limits gyre/websocket/session]
  }.flat_map { |test, files| files.map { |file| ["lib/#{file}.rb", test] } }.to_h.freeze
end
