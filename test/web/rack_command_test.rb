# frozen_string_literal: true

# What `bin/rails server` and rackup do with config/gyre.rb and the environment
# (Gyre::Web::RackCommand). test/frameworks has the real Rails.

require "test_helper"
require "rackup/handler"
require_relative "serving"

class WebRackCommandTest < Minitest::Test
  include GyreTest::Serving

  HELLO = ->(_env) { [200, { "content-type" => "text/plain" }, ["hello"]] }

  # The options that Rails passes if the user gives none.
  RAILS = { user_supplied_options: [], Host: "0.0.0.0", Port: 3000, config: "config.ru", environment: "production" }.freeze

  def test_the_files_settings_hold_unless_an_option_sets_another_value
    configured("body_bytes_limit 10\nkeep_alive_timeout 7\nhealth_path '/up'\nbind '127.0.0.1:0'") do
      capture do
        handler.run(HELLO, keep_alive_timeout: "5", environment: "development") do |server|
          assert_equal [10, 5.0], [server.limits.body_bytes_limit, server.limits.keep_alive_timeout_s]
          assert_equal "200", Net::HTTP.get_response(URI("#{server.urls.first}/up")).code
          server.stop
        end
      end
    end
  end

  def test_an_address_of_the_user_is_above_the_files_and_a_usual_one_below
    configured("bind 'tcp://127.0.0.1:4001', 'unix:///tmp/app.sock'") do
      assert_equal %w[tcp://127.0.0.1:4001 unix:///tmp/app.sock], addresses(RAILS)
      assert_equal %w[tcp://127.0.0.1:4001 unix:///tmp/app.sock], addresses(Host: "localhost", Port: 9292) # rackup's
      assert_equal ["tcp://0.0.0.0:4000"], addresses({ **RAILS, Port: 4000, user_supplied_options: [:Port] })
      assert_equal ["tcp://127.0.0.1:9292"], addresses(Host: "127.0.0.1", Port: 9292)
      assert_equal ["tcp://127.0.0.1:1"], addresses(bind: "tcp://127.0.0.1:1")
    end
    configured("port 4002") { assert_equal ["tcp://*:4002"], addresses(RAILS) }
    configured(nil) { assert_equal ["tcp://0.0.0.0:3000"], addresses(RAILS) }
  end

  def test_what_needs_more_processes_is_named_in_the_log
    configured("workers 2\nbeside 'bin/jobs'\nbind '127.0.0.1:0'") do
      out, = with_environment("SOLID_QUEUE_IN_PUMA", "true") { capture { handler.run(HELLO, environment: "development", &:stop) } }
      assert_match(/^config\/gyre\.rb: not applied in this process: workers, beside\. /, out)
      assert_match(/^SOLID_QUEUE_IN_PUMA starts bin\/jobs with workers only/, out)
    end
  end

  def test_only_a_file_outside_of_development_has_workers
    rackup = { config: "config.ru", environment: "production" }
    configured("workers 2") do
      File.write("config.ru", "")
      assert_predicate command(rackup), :workers?
      refute_predicate command({ **rackup, environment: "development" }), :workers?
      refute_predicate command({ environment: "production" }), :workers? # the app is an object
    end
    configured("workers 0") { File.write("config.ru", "") && refute_predicate(command(rackup), :workers?) }
    configured(nil) do
      File.write("config.ru", "")
      %w[0 2 auto].zip([false, true, true]) do |count, workers|
        with_environment("WEB_CONCURRENCY", count) { assert_equal workers, command(rackup).workers?, count }
      end
    end
  end

  def test_rackups_settings_and_addresses_reach_gyre_serve
    options = { config: "app.ru", environment: "production", bind: "tcp://127.0.0.1:1,unix:///tmp/a.sock", body_bytes_limit: "10M", compress: "true" }
    assert_equal %w[--environment production --bind tcp://127.0.0.1:1 --bind unix:///tmp/a.sock --body-bytes-limit 10M --compress app.ru],
      served(options).last
    refute_predicate command(environment: "production", config: "config.ru", builder: "run HELLO"), :workers?
  end

  def test_the_rails_command_becomes_gyre_serve_with_the_same_options
    assert_equal [{ "PORT" => "3000" }, %w[--environment production config.ru]], served(RAILS)
    given = { **RAILS, user_supplied_options: %i[Host Port], Host: "127.0.0.1", Port: 4000, pid: "/run/app.pid" }
    assert_equal %w[--environment production --host 127.0.0.1 --port 4000 --pidfile /run/app.pid --early-hints app.ru],
      served({ **given, early_hints: true, config: "app.ru" }).last
    assert_equal [{ "PORT" => "4000" }, %w[--environment staging --bind ssl://127.0.0.1 config.ru]],
      served({ **RAILS, user_supplied_options: %i[Host Port], Host: "ssl://127.0.0.1", Port: 4000, environment: "staging" })
  end

  def test_rails_usual_port_is_below_a_name_for_a_certificate
    with_environment("TLS_DOMAIN", "example.org") do
      assert_equal({}, served(RAILS).first)
      assert_equal({ "PORT" => "4000" }, served({ **RAILS, Port: 4000, user_supplied_options: [:Port] }).first)
    end
  end

  # Stands for Rails::Server.
  class Server
    attr_reader :server, :options

    def initialize(server, environment)
      @server = server
      @options = { **RAILS, environment: environment }
    end

    def start(*) = :started

    def served_url = "http://ssl://127.0.0.1:3000"
  end

  def test_only_gyre_outside_of_development_is_taken_over_and_prints_its_own_addresses
    taken = []
    handler && Server.prepend(Gyre::Web::RackCommand::Rails)
    Gyre::Web::RackCommand.stub(:new, ->(options) { Struct.new(:serve).new(taken << options[:environment]) }) do
      [[handler, "development"], [Object, "production"], [handler, "production"]].each { |given| Server.new(*given).start(-> { }) }
    end
    assert_equal ["production"], taken
    assert_equal [nil, "http://ssl://127.0.0.1:3000"], [handler, Object].map { |server| Server.new(server, "test").served_url }
  end

  def test_rackup_with_workers_is_gyre_serve
    Dir.mktmpdir do |folder|
      File.write("#{folder}/config.ru", "run ->(env) { [200, {}, [Process.pid.to_s]] }\n")
      Dir.mkdir("#{folder}/config")
      File.write("#{folder}/config/gyre.rb", "workers 1\nbody_bytes_limit 10\n")
      command = ruby_command("-e", "load Gem.bin_path('rackup', 'rackup')", "--", *%w[-s gyre -o 127.0.0.1 -p 0 -E production], gems: true)
      with_subprocess(*command, chdir: folder) do |pid, out, err|
        program = Program.new(self, pid, out, err, folder)
        program.expect(/process #{pid} with 1 workers?$.*Use Ctrl-C to stop/m)
        refute_equal pid.to_s, Net::HTTP.get(URI(program.urls.first))
        assert_equal "413", Net::HTTP.post(URI(program.urls.first), "x" * 11).code
        program.signal(:TERM)
        assert_equal 0, program.status.exitstatus, program.text(:err)
      end
    end
  end

  private

  def handler = Rackup::Handler.get("gyre")

  def command(options) = handler && Gyre::Web::RackCommand.new(options)

  def addresses(options) = command(options).addresses.map(&:to_s)

  # Returns environment and flags that it would be executed with.
  def served(options)
    command = self.command(options)
    command.define_singleton_method(:exec) { |*words| words }
    environment, *words = command.serve
    [environment, words.drop(words.index("serve") + 1)]
  end

  def with_environment(name, value)
    before, ENV[name] = ENV[name], value
    yield
  ensure
    ENV[name] = before
  end

  # Yields in a folder with that text as config/gyre.rb.
  def configured(text)
    Dir.mktmpdir do |folder|
      Dir.chdir(folder) do
        Dir.mkdir("config")
        File.write("config/gyre.rb", text) if text
        yield
      end
    end
  end
end
