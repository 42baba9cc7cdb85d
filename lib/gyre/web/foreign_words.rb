# frozen_string_literal: true

# Words of other servers' configurations, above all Puma's, and what to write here. Settings has
# them as FOREIGN; the configuration file and the command line answer with them.

module Gyre
  module Web
    # A Hash.
    module ForeignWords
      LEAVE = "leave it out: "
      private_constant :LEAVE

      # Answers, and the words that have each.
      ANSWERS = {
        "write keep_alive_timeout" => %i[persistent_timeout],
        "write first_byte_timeout" => %i[first_data_timeout],
        "write body_bytes_limit" => %i[http_content_length_limit],
        "write shutdown_timeout" => %i[force_shutdown_after worker_shutdown_timeout],
        "write keep_alive_requests_limit" => %i[max_keep_alive],
        "write workers" => %i[count cluster],
        "write state" => %i[state_path],
        "write access_log" => %i[stdout_redirect redirect_stdout redirect_stderr redirect_append],
        "write log_format" => %i[log_requests log_formatter],
        "write trusted_proxy" => %i[set_remote_address],
        "write trusted_proxy: the proxy's X-Forwarded-Proto counts" => %i[rack_url_scheme],
        "write host" => %i[set_default_host],
        "write rackup, the file that makes the app" => %i[app],
        "write metrics for figures, state for commands" => %i[activate_control_app],
        "write quiet, or log_format \"none\" to log no requests" => %i[silent],
        "write watchdog: it logs what holds up the others" => %i[debug],
        "write after_worker_start: it runs in each worker once it serves" => %i[after_booted on_booted],
        "write after_worker_stop: it runs after each worker" => %i[after_stopped on_stopped],
        "#{LEAVE}for tmp_restart write restart_file \"tmp/restart.txt\", for solid_queue beside \"bin/jobs\"; systemd is built in" => %i[plugin],
        "#{LEAVE}every request has a fiber of its own, there is no pool to size" =>
          %i[threads max_io_threads fiber_per_request queue_requests before_thread_start on_thread_start before_thread_exit on_thread_exit],
        "#{LEAVE}the app is always loaded once, before the workers are forked" => %i[preload_app preload],
        "#{LEAVE}the workers are always forks of a process that serves nothing, and a rolling restart makes a new one" =>
          %i[fork_worker nakayoshi_fork before_refork on_refork after_refork],
        "#{LEAVE}a restart closes nothing of the app's" => %i[before_restart on_restart],
        "#{LEAVE}a restart runs the command that this server was started with" => %i[restart_command restart_cmd],
        "#{LEAVE}the state file is always for its owner only" => %i[state_permission control_token],
        "write state: the control socket is beside that file" => %i[control_url],
        "#{LEAVE}sockets of systemd are taken as they are" => %i[bind_to_activated_sockets],
        "#{LEAVE}the addresses of a flag are always instead of the file's" => %i[clear_binds],
        "#{LEAVE}new connections are shared out by how many a worker has" => %i[wait_for_less_busy_worker],
        "#{LEAVE}workers report each second" => %i[worker_check_interval],
        "#{LEAVE}a worker that is stuck or too large is replaced (worker_timeout, worker_memory_limit)" => %i[worker_culling_strategy],
        "#{LEAVE}what the kernel has accepted is always served" => %i[drain_on_shutdown],
        "#{LEAVE}TERM ends the server in order, with status 0" => %i[raise_exception_on_sigterm],
        "#{LEAVE}QUIT prints what each worker does" => %i[shutdown_debug],
        "#{LEAVE}a connection is kept as long as keep_alive_timeout says" => %i[enable_keep_alives max_fast_inline],
        "#{LEAVE}the loop takes the best backend; GYRE_BACKEND names another" => %i[io_selector_backend],
        "#{LEAVE}any method reaches the app" => %i[supported_http_methods],
        "#{LEAVE}a header whose name has an underscore is never taken for another" => %i[allow_underscore_headers],
        "#{LEAVE}an exception of the app is a 500 and in the log; a middleware makes another response" => %i[lowlevel_error_handler],
        "#{LEAVE}the log goes to standard output and standard error" => %i[custom_logger],
        "#{LEAVE}standard output is always written at once" => %i[mutate_stdout_and_stderr_to_sync_on_write],
        "#{LEAVE}there are no such warnings" => %i[silence_single_worker_warning silence_fork_callback_warning],
        "#{LEAVE}write what it has under `if`, as in plain Ruby" => %i[single],
        "#{LEAVE}a new program finds its gems again, as bundle exec does" => %i[prune_bundler extra_runtime_dependencies],
        "#{LEAVE}processes are named \"gyre: worker 1\"" => %i[tag],
        "#{LEAVE}start the server in that folder (cd, or systemd's WorkingDirectory)" => %i[directory dir],
        "#{LEAVE}write `load` with a path, as in plain Ruby" => %i[inject],
        "#{LEAVE}set RUBYLIB" => %i[include],
        "write config -" => %i[no_config],
        "#{LEAVE}a server that nothing asks stays; systemd's sockets start one when it is asked for" => %i[idle_timeout],
        "#{LEAVE}a worker is never without requests; a job, or Process.warmup in before_fork, does such work" => %i[out_of_band]
      }.flat_map { |answer, words| words.map { |word| [word, answer] } }.to_h.freeze
    end
  end
end
