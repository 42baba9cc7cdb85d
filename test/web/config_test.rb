# frozen_string_literal: true

# The words of the configuration file and its messages: Gyre::Web::Config.

require "test_helper"
require "tmpdir"
require "gyre/web/config"

class WebConfigTest < Minitest::Test
  def test_each_word_sets_its_setting
    assert_equal({ bind: ["tcp://127.0.0.1:0", "unix:///run/app.sock"], environment: "production", log_format: "json",
                   shutdown_timeout: 5, rackup: "app.ru", pidfile: "app.pid", quiet: true, port: 3000, host: "::" },
                 evaluate(<<~RUBY))
                   bind "tcp://127.0.0.1:0"
                   bind "unix:///run/app.sock"
                   environment "production"
                   log_format "json"
                   shutdown_timeout 5
                   rackup "app.ru"
                   pidfile "app.pid"
                   quiet
                   port 3000
                   host "::"
                 RUBY
  end

  def test_every_limit_has_a_word
    Gyre::HTTP::Limits::TABLE.each do |row|
      assert_equal({ row.name => 7 }, evaluate("#{row.word} 7"))
    end
  end

  def test_values_may_be_written_as_on_the_command_line
    assert_equal({ port: 80, shutdown_timeout: 60, body_bytes_limit: 10 << 20, keep_alive_timeout_s: nil },
                 evaluate("port '80'\nshutdown_timeout '1 minute'\nbody_bytes_limit '10M'\nkeep_alive_timeout 'none'"))
  end

  def test_it_is_ruby
    assert_equal({ port: 3001, body_bytes_limit: 1024 }, evaluate(<<~RUBY))
      base = 3000
      port base + 1
      body_bytes_limit 1024 if base > 0
    RUBY
  end

  def test_an_unknown_word_is_reported_with_its_line_and_the_nearest_word
    assert_equal "gyre.rb:2: log_fromat: unknown setting; did you mean log_format?", refusal("port 1\nlog_fromat 'json'\n")
    assert_equal "gyre.rb:1: keep_alive_timout: unknown setting; did you mean keep_alive_timeout?", refusal("keep_alive_timout 5")
  end

  def test_a_word_like_no_other_is_refused_with_those_that_exist
    message = refusal("xylophone 5")
    assert_includes message, "known: bind, port, host,"
    assert_includes message, "connections_limit"
  end

  def test_words_of_other_servers_are_translated
    assert_equal "gyre.rb:1: persistent_timeout: unknown setting; write keep_alive_timeout", refusal("persistent_timeout 20")
    assert_includes refusal("threads 5, 5"), "gyre.rb:1: threads: unknown setting; leave it out"
    assert_includes refusal("preload_app!"), "gyre.rb:1: preload_app!: unknown setting; leave it out"
    assert_includes refusal("plugin :tmp_restart"), 'write restart_file "tmp/restart.txt"'
  end

  # The DSL of Puma 8.0.2, without its hooks that are words here.
  PUMA = %w[
    activate_control_app after_booted after_refork after_stopped allow_underscore_headers app before_refork before_restart before_thread_exit
    before_thread_start bind_to_activated_sockets clear_binds! cluster custom_logger debug directory drain_on_shutdown enable_keep_alives
    extra_runtime_dependencies fiber_per_request first_data_timeout force_shutdown_after fork_worker http_content_length_limit idle_timeout inject
    io_selector_backend log_formatter log_requests lowlevel_error_handler max_fast_inline max_io_threads max_keep_alive
    mutate_stdout_and_stderr_to_sync_on_write on_booted on_refork on_restart on_stopped on_thread_exit on_thread_start out_of_band persistent_timeout
    plugin preload_app! prune_bundler queue_requests rack_url_scheme raise_exception_on_sigterm restart_command set_default_host set_remote_address
    shutdown_debug silence_fork_callback_warning silence_single_worker_warning single state_path state_permission stdout_redirect
    supported_http_methods tag threads wait_for_less_busy_worker worker_check_interval worker_culling_strategy worker_shutdown_timeout
  ].freeze

  def test_each_word_of_puma_is_answered
    answers = refusal(PUMA.map { |word| "#{word} 1\n" }.join).lines(chomp: true)
    assert_equal PUMA.size, answers.size
    PUMA.zip(answers, 1..) do |word, answer, line|
      assert_match(/\Agyre\.rb:#{line}: #{Regexp.escape(word)}: unknown setting; (write|set|start|leave it out: )/, answer)
      written = answer[/; write (\w+)/, 1] and assert_respond_to Gyre::Web::Config.new("gyre.rb"), written
    end
  end

  def test_all_faults_are_reported_at_once
    assert_equal 4, refusal("threads 1\nport 'http'\nbefore_fork\nNonsense.call\n").lines.size
  end

  def test_a_value_that_cannot_be_is_reported_with_its_line
    assert_match(/\Agyre\.rb:2: shutdown_timeout: must be a time like 1.5 or "2 minutes", at least 0, not "x"\z/, refusal("\nshutdown_timeout 'x'"))
    assert_match(/\Agyre\.rb:1: port: must be a port/, refusal("port 'http'"))
    assert_match(/\Agyre\.rb:1: log_format: must be none, common/, refusal("log_format 'xml'"))
    assert_match(/\Agyre\.rb:1: .*IPv6 address goes in brackets/, refusal("bind '::1:80'"))
    assert_match(/\Agyre\.rb:1: header_count_limit: must be/, refusal("header_count_limit 0"))
    assert_match(/\Agyre\.rb:1: quiet: must be true or false/, refusal("quiet 'yes'"))
    assert_match(/\Agyre\.rb:1: rackup: must be a path, not true/, refusal("rackup"))
  end

  def test_a_mistake_in_the_ruby_is_reported_with_its_line
    assert_match(/gyre\.rb:2: .*syntax error/m, refusal("port 1\nport ]\n").downcase)
    assert_match(/\Agyre\.rb:2: .*Nonsense/, refusal("port 1\nNonsense.call\n"))
    assert_match(/\Agyre\.rb:1: no \(RuntimeError\)/, refusal("raise 'no'"))
  end

  def test_what_is_right_is_known_although_something_is_wrong
    error = assert_raises(Gyre::Web::ConfigError) { evaluate("prot 1\nport 0\nhost\n") }
    assert_equal({ port: 0 }, error.settings)
  end

  def test_flags_win_over_the_file
    file = { quiet: true, rackup: "a.ru", connections_limit: 1, header_count_limit: 1 }
    flags = { rackup: "b.ru", connections_limit: 2 }
    assert_equal({ quiet: true, rackup: "b.ru", connections_limit: 2, header_count_limit: 1 }, Gyre::Web::Config.merge(file, flags))
  end

  def test_an_address_by_flag_is_instead_of_the_files_addresses
    file = { bind: ["a:1"], host: "c", port: 1 }
    assert_equal({ bind: ["b:2"] }, Gyre::Web::Config.merge(file, { bind: ["b:2"] }))
    assert_equal({ host: "c", port: 2 }, Gyre::Web::Config.merge(file, { port: 2 }))
    assert_equal({ host: "d", port: 1 }, Gyre::Web::Config.merge(file, { host: "d" }))
  end

  def test_a_file_is_loaded_by_its_path
    Dir.mktmpdir do |folder|
      path = File.join(folder, "gyre.rb")
      File.write(path, "port 0\n")
      assert_equal({ port: 0 }, Gyre::Web::Config.load(path))
      error = assert_raises(Gyre::Web::ConfigError) { Gyre::Web::Config.load(File.join(folder, "none.rb")) }
      assert_includes error.message, "none.rb: the configuration cannot be read: no such file"
    end
  end

  def test_a_file_is_read_as_utf_8_whatever_the_locale
    Dir.mktmpdir do |folder|
      path = File.join(folder, "gyre.rb")
      File.write(path, "environment 'dürfen'\n")
      run = ruby("-rgyre/web/config", "-e", "puts Gyre::Web::Config.load(ARGV.first)[:environment].dump", path, env: { "LC_ALL" => "C" })
      assert_equal ["d\\u00FCrfen", ""], [run.out.chomp.delete('"'), run.err]
    end
  end

  def test_a_path_may_be_a_pathname
    assert_equal({ pidfile: "run/app.pid" }, evaluate("require 'pathname'; pidfile Pathname('run/app.pid')"))
    assert_equal "public", evaluate("static Pathname('public'), at: '/files'")[:static].first.path
  end

  private

  def evaluate(text)
    Gyre::Web::Config.new("gyre.rb").evaluate(text)
  end

  def refusal(text)
    assert_raises(Gyre::Web::ConfigError) { evaluate(text) }.message
  end
end
