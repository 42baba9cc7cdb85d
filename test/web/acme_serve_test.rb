# frozen_string_literal: true

# Certificates by ACME as users have them: `gyre serve --acme` with and without workers, `gyre ctl
# renew`, restarts, --check; the authority is Debian's pebble.

require "test_helper"
require "etc"
require "gyre/cli/serve"
require "gyre/web/acme/keeper"
require "support/acme"
require_relative "serving"

class WebACMEServeTest < Minitest::Test
  include GyreTest::Serving
  include GyreTest::ACMEPrograms

  def test_workers_get_a_certificate_while_they_serve_and_renew_it_by_command
    serve("-w", "1", *plain, port: false, env: trusting) do |program|
      program.expect(/self-signed until the first certificate comes: #{NAME}.*acme: #{NAME} has a certificate until/m)
      eventually(what: "the certificate in the worker") { certificate(program).issuer.to_s.include?("Pebble") }
      assert_includes ctl(program, "status"), "certificate #{NAME}: until "
      first = certificate(program).serial
      program.signal(:USR2)
      program.expect(/Hot restart: all workers run the new code/)
      assert_equal first, certificate(program).serial
      assert_equal "renew: done\n", ctl(program, "renew")
      eventually(what: "the next certificate in the worker") { certificate(program).serial != first }
    end
  end

  # Any of the workers may get the authority's connection.
  def test_workers_without_a_plain_port_are_validated_over_https
    serve("-w", "2", "--acme", NAME, "--acme-folder", "kept", "-b", "ssl://127.0.0.1:#{pebble.tls_port}", port: false, env: trusting) do |program|
      program.expect(/acme: #{NAME} has a certificate until/)
      assert_equal "renew: done\n", ctl(program, "renew")
      eventually(what: "the certificate in the worker") { certificate(program).issuer.to_s.include?("Pebble") }
    end
  end

  def test_one_process_takes_thrusters_variables_and_leads_plain_requests_to_https
    variables = { "TLS_DOMAIN" => NAME, "STORAGE_PATH" => memory, "HTTP_PORT" => pebble.http_port.to_s, "HTTPS_PORT" => "0" }
    serve(port: false, env: { **trusting, **variables }) do |program|
      program.expect(/acme_folder: #{memory} is on tmpfs and ends with the container or machine/, :err)
      program.expect(/acme: #{NAME} has a certificate until.*Certificates were read again/m)
      assert_match(/Pebble/, certificate(program).issuer.to_s)
      folder = pebble.directory.delete_prefix("https://").tr(":/", "_")
      assert_path_exists File.join(memory, folder, "#{NAME}.pem")
      response = Net::HTTP.start("127.0.0.1", pebble.http_port) { |http| http.get("/a", "host" => NAME) }
      assert_equal ["301", "https://#{NAME}/a"], [response.code, response["location"]]
    end
  ensure
    FileUtils.rm_rf(memory)
  end

  def test_the_user_who_takes_over_owns_the_folder
    skip "this is root's" unless Process.uid.zero?
    flags = ["--user", "nobody", "--acme", NAME, "--acme-folder", "a/kept", "-b", "tcp://127.0.0.1:#{pebble.http_port}", "-b", "ssl://127.0.0.1:0"]
    serve(*flags, port: false, mode: 0o755, env: trusting) do |program|
      program.expect(/has a certificate until/)
      owners = Dir.glob("a/**/*", base: program.folder).map { |path| File.stat(File.join(program.folder, path)).uid }
      assert_equal [Etc.getpwnam("nobody").uid], owners.uniq
      assert_operator owners.size, :>=, 4
    end
  end

  def test_settings_that_do_not_fit_are_refused_and_variables_of_thruster_need_a_server_that_names_no_address
    complete = ->(**settings) { Gyre::CLI::Serve.new.send(:with_certificates, settings) }
    { { bind: ["tcp://*:80"] } => "none of the addresses is for https", { port: 80 } => "add -b 'ssl://*:443'", { tls: true } => "leave out tls" }
      .each { |settings, words| assert_includes assert_raises(Gyre::UsageError) { complete.call(acme: [NAME], **settings) }.message, words }
    assert_equal ["tcp://*:80", "ssl://*:443"], complete.call(acme: [NAME], acme_folder: "a")[:bind]
    assert_equal({ port: 80 }, complete.call(port: 80, acme_folder: "a"))
    assert_includes assert_raises(Gyre::UsageError) { complete.call(acme: %w[a.test *.a.test]) }.message, "*.a.test needs dns_challenge"
    assert_equal %w[*.a.test], complete.call(acme: %w[*.a.test], acme_folder: "a", dns_challenge: -> {})[:certificates].names
  end

  def test_a_check_orders_nothing_and_leaves_nothing
    kind = Gyre::Web::ACME::Store.new([NAME], Dir.tmpdir, pebble.directory).fleeting
    { { "PORT" => "80" } => nil, {} => kind, { "STORAGE_PATH" => memory } => "tmpfs" }.each do |more, faulty|
      variables = { "TLS_DOMAIN" => NAME, "STORAGE_PATH" => "kept", **more }
      run = gyre("serve", "--check", env: variables, files: { "config.ru" => APP }, gems: true)
      faulty ? assert_match(/acme_folder: \S+ is on #{faulty} and ends with/, run.err) : assert_equal("configuration OK\n", run.out)
    end
    refute_path_exists memory
    run = gyre("serve", "--check", env: { "TLS_DOMAIN" => NAME, "STORAGE_PATH" => "config.ru/kept" }, files: { "config.ru" => APP }, gems: true)
    assert_match(/acme_folder: there is a file in place of the folder config.ru/, run.err)
  end

  private

  # Returns a folder that ends with the machine.
  def memory
    skip "there is no /dev/shm" unless File.directory?("/dev/shm")
    @memory ||= "/dev/shm/gyre-#{Process.pid}-#{SecureRandom.hex(4)}"
  end
end
