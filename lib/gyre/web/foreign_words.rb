# frozen_string_literal: true

# Words of other servers' configurations, mostly Puma's: Web::SETTINGS refuses them with this
# advice.

module Gyre
  module Web
    FOREIGN_WORDS = {
      persistent_timeout: "write keep_alive_timeout", first_data_timeout: "write first_byte_timeout",
      http_content_length_limit: "write body_bytes_limit", max_keep_alive: "write keep_alive_requests_limit",
      force_shutdown_after: "write shutdown_timeout", worker_shutdown_timeout: "write shutdown_timeout",
      count: "write workers", cluster: "write workers", state_path: "write state", set_default_host: "write host",
      stdout_redirect: "write access_log", redirect_stdout: "write access_log", redirect_stderr: "write access_log",
      redirect_append: "write access_log", log_requests: "write log_format", log_formatter: "write log_format",
      set_remote_address: "write trusted_proxy", rack_url_scheme: "write trusted_proxy, whose X-Forwarded-Proto is trusted",
      app: "write rackup, the file that makes the app", ssl_bind: "write bind \"ssl://host:port?cert=PATH&key=PATH\", or tls",
      activate_control_app: "write metrics for figures, state for commands", control_url: "write state: the control socket is beside that file",
      silent: "write quiet, or log_format \"none\" to log no requests", debug: "write watchdog, which logs requests that block others",
      after_booted: "write after_worker_start, which runs in each worker", on_booted: "write after_worker_start, which runs in each worker",
      after_stopped: "write after_worker_stop, which runs after each worker", on_stopped: "write after_worker_stop, which runs after each worker",
      plugin: "write restart_file \"tmp/restart.txt\" for tmp_restart, beside \"bin/jobs\" for solid_queue; systemd is built in",
      inject: "leave it out: load with a path is plain Ruby", include: "set RUBYLIB", no_config: "write config -",
      io_selector_backend: "set GYRE_BACKEND; by default the loop takes the best backend",
      stream_output_bytes_limit: "leave it out: it is 64 KB", directory: "start the server in that folder", dir: "start the server in that folder",
      **%i[
        threads max_io_threads fiber_per_request queue_requests before_thread_start on_thread_start before_thread_exit on_thread_exit preload_app
        preload fork_worker nakayoshi_fork before_refork on_refork after_refork before_restart on_restart restart_command restart_cmd state_permission
        control_token bind_to_activated_sockets clear_binds wait_for_less_busy_worker worker_check_interval worker_culling_strategy drain_on_shutdown
        raise_exception_on_sigterm shutdown_debug enable_keep_alives max_fast_inline supported_http_methods allow_underscore_headers
        lowlevel_error_handler custom_logger mutate_stdout_and_stderr_to_sync_on_write silence_single_worker_warning
        silence_fork_callback_warning single prune_bundler extra_runtime_dependencies tag idle_timeout out_of_band
      ].to_h { |word| [word, "leave it out: Gyre needs no such setting (docs/from-puma.md)"] }
    }.freeze
  end
end
