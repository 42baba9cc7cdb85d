# frozen_string_literal: true

# `rackup -s gyre` and what Rails uses of it: Gyre::Web::Handler.

require "test_helper"
require "rackup/handler"
require "support/transports"
require_relative "serving"

class WebHandlerTest < Minitest::Test
  include GyreTest::Serving

  HELLO = ->(_env) { [200, { "content-type" => "text/plain" }, ["hello"]] }

  def test_rackup_finds_the_handler_by_its_name
    found = handler # loads it
    assert_same Gyre::Web::Handler, found
  end

  def test_it_serves_and_hands_out_a_server_that_can_be_stopped
    out, = capture do
      handler.run(HELLO, Host: "127.0.0.1", Port: "0", environment: "test") do |server|
        assert_equal "hello", Net::HTTP.get(URI(server.urls.first))
        server.stop
      end
    end
    assert_match(%r{^  listening on http://127\.0\.0\.1:\d+$}, out)
    assert_match(/^  environment test, process \d+$/, out)
  end

  def test_options_of_gyre_come_as_strings
    capture do
      handler.run(HELLO, bind: "127.0.0.1:0,127.0.0.1:0", keep_alive_timeout: "2.5", body_bytes_limit: "10k", shutdown_timeout: "1") do |server|
        assert_equal [2.5, 10_240], [server.limits.keep_alive_timeout_s, server.limits.body_bytes_limit]
        server.stop
      end
    end
  end

  def test_settings_of_the_configuration_file_are_options
    Dir.mktmpdir do |folder|
      FileUtils.touch(log = File.join(folder, "access.log"))
      out, err = capture do
        handler.run(->(env) { [200, {}, [env.values_at("REMOTE_ADDR", "HTTP_X_REQUEST_ID").join(" ")]] },
          Host: "127.0.0.1", Port: "0", metrics: "127.0.0.1:0", access_log: log, request_id: "true", trusted_proxy: "10.0.0.0/8,loopback",
          health_path: "/up", watchdog: "false") do |server|
          url = server.urls.first
          assert_equal "192.0.2.7 number-7",
            Net::HTTP.get(URI(url), { "X-Forwarded-For" => "192.0.2.7", "X-Request-Id" => "number-7" })
          assert_equal "200", Net::HTTP.get_response(URI("#{url}/up")).code
          assert_match(/^gyre_http_requests_total 2$/, Net::HTTP.get(URI("#{server.metrics_urls.first}/metrics")))
          server.stop
        end
      end
      assert_equal "", err
      assert_match(%r{metrics on http://127}, out)
      assert_match(%r{\A192\.0\.2\.7 .* "GET / HTTP/1\.1" 200 18$}, File.read(log))
    end
  end

  def test_a_value_that_cannot_be_is_refused_with_its_name
    { trusted_proxy: "nowhere", request_id: "perhaps", metrics: "99999999", health_path: "up" }.each do |name, value|
      assert_match(/\A#{name}: must be |\A#{name}: /, assert_raises(ArgumentError) { handler.run(HELLO, Port: "0", name => value) }.message)
    end
  end

  # As `rails server -b 'ssl://…'` hands it over.
  def test_a_host_may_be_an_address_with_tls
    certificate, key = GyreTest::Transports.identity("server")
    capture do
      handler.run(HELLO, Host: "ssl://127.0.0.1?cert=#{certificate}&key=#{key}", Port: "0") do |server|
        url = URI(server.urls.first)
        hello = Net::HTTP.start(url.host, url.port, use_ssl: true, verify_mode: OpenSSL::SSL::VERIFY_NONE) { |http| http.get("/").body }
        assert_equal %w[https hello], [url.scheme, hello]
        server.stop
      end
    end
  end

  def test_an_option_that_cannot_be_is_refused
    assert_raises(ArgumentError) { handler.run(HELLO, Port: "0", connections_limit: "many") }
  end

  def test_an_option_that_is_not_known_is_reported_with_the_nearest
    _, err = capture do
      handler.run(HELLO, Host: "127.0.0.1", Port: "0", keep_alive_timout: "5", sumo: "1", environment: "test", &:stop)
    end
    assert_match(/gyre: the option keep_alive_timout is unknown, and does nothing; did you mean keep_alive_timeout\?$/, err)
    assert_match(/gyre: the option sumo is unknown, and does nothing$/, err)
    assert_equal 2, err.lines.size
  end

  def test_every_limit_is_an_option
    names = handler.valid_options.keys.map { |text| text[/\A\w+/] }
    assert_includes names, "Host"
    assert_includes names, "Port"
    Gyre::HTTP::Limits::TABLE.each { |row| assert_includes names, row.word }
  end

  def test_rackup_serves_with_it
    rackup("-E", "none") do |program|
      assert_equal "hello", Net::HTTP.get(URI(program.urls.first))
      program.signal(:INT)
      assert_equal 0, program.status.exitstatus
      assert_match(/^Stopped$/, program.text(:out))
    end
  end

  def test_rackup_in_development_lints_and_logs_by_itself
    rackup do |program|
      assert_equal "hello", Net::HTTP.get(URI(program.urls.first))
      program.expect(%r{"GET / HTTP/1\.1" 200}, :err)
      refute_match(%r{GET /}, program.text(:out))
    end
  end

  private

  def handler
    Rackup::Handler.get("gyre")
  end

  def rackup(*flags, env: {})
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "config.ru"), APP)
      arguments = ["-s", "gyre", "-o", "127.0.0.1", "-p", "0", *flags]
      command = ruby_command("-e", "load Gem.bin_path('rackup', 'rackup')", "--", *arguments, env: { "RACK_ENV" => nil, **env }, gems: true)
      with_subprocess(*command, chdir: folder) do |pid, out, err|
        program = Program.new(self, pid, out, err, folder)
        program.expect(/Use Ctrl-C to stop/)
        yield program
      end
    end
  end
end
