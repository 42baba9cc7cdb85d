# frozen_string_literal: true

# `bin/rails server` in development: Gyre is what it starts, code is reloaded while no request runs,
# and tmp/restart.txt restarts it. Run by `rake test:frameworks`.

require "test_helper"
require "fileutils"
require "net/http"
require "log/fake_server"
require "web/serving"
require_relative "cables"

class RailsServerTest < Minitest::Test
  include GyreTest::Serving
  include GyreTest::Bundled

  APP = File.join(__dir__, "rails")

  def test_gyre_is_the_server_and_keeps_state_by_fiber
    rails_server do |program|
      assert_match(/=> Booting Gyre/, program.text(:out))
      assert_equal "1 fiber Gyre::Scheduler", get(program, "/version")
    end
  end

  def test_code_is_reloaded_when_no_request_runs
    rails_server do |program|
      assert_match(/\A1 /, get(program, "/version"))
      waiting = Thread.new { get(program, "/wait") }
      eventually(what: "a request that runs") { File.exist?("#{program.folder}/waiting") }
      change(program, 2)
      asking = Array.new(3) { Thread.new { get(program, "/version") } }
      eventually(what: "requests that wait") { File.read("#{program.folder}/log.txt").scan('Started GET "/version"').size >= 4 }
      refute asking.any? { |thread| thread.join(0.2) }, "code was reloaded under a request"
      File.write("#{program.folder}/go", "")
      assert_equal "1 true", waiting.value
      assert_equal ["2"], asking.map { |thread| thread.value[/\A\d/] }.uniq
    end
  end

  # As under Puma: Action Cable ends its connections before code is unloaded, and clients come back.
  %w[async gyre].each do |adapter|
    define_method(:"test_cables_come_back_to_reloaded_channels_with_the_adapter_#{adapter}") do
      rails_server("ADAPTER" => adapter) do |program|
        first = enter(program)
        assert_equal 1, said(first)
        change(program, 2, VERSION_CHANNEL)
        assert_equal 1, said(first) # a message reloads nothing
        second = enter(program)
        assert_restarted(first)
        assert_equal 2, said(second)
        change(program, 3, VERSION_CHANNEL)
        get(program, "/version")
        assert_restarted(second)
        assert_equal 3, said(third = enter(program))
        eventually(what: "the end of the others") { act(third, "open").read["message"] == 1 }
      end
    end
  end

  def test_code_is_reloaded_when_no_action_of_a_cable_runs
    rails_server do |program|
      cable = enter(program)
      act(cable, "wait")
      eventually(what: "an action that runs") { File.exist?("#{program.folder}/waiting") }
      change(program, 2, VERSION_CHANNEL)
      asking = Thread.new { get(program, "/version") }
      eventually(what: "a request that waits") { File.read("#{program.folder}/log.txt").include?('Started GET "/version"') }
      refute asking.join(0.2), "code was reloaded under an action"
      File.write("#{program.folder}/go", "")
      assert_equal [1, true], cable.read["message"]
      assert_restarted(cable)
      assert asking.value
      assert_equal 2, said(enter(program))
    end
  end

  def test_a_touched_file_restarts_it
    rails_server do |program|
      port = program.port
      FileUtils.mkdir_p("#{program.folder}/tmp")
      File.write("#{program.folder}/tmp/restart.txt", "")
      eventually(what: "a second start") { program.text(:out).scan("=> Booting Gyre").size == 2 }
      eventually(what: "a second banner") { program.urls.size == 2 }
      assert_match(/\A1 /, Net::HTTP.get(URI("#{program.urls.last}/version")))
      assert_match(%r{:#{port}\z}, program.urls.first)
    end
  end

  # A system test without a browser: the server is Capybara's own business, the driver is not.
  SYSTEM_TEST = <<~'RUBY'
    ENV["RAILS_ENV"] = "test"
    require_relative "config/environment"
    require "capybara"
    require "action_dispatch/system_test_case"
    require "net/http"
    server = Capybara::Server.new(Capybara.app).boot
    pages = Array.new(3) { Thread.new { Net::HTTP.get(URI("http://#{server.host}:#{server.port}/version")) } }
    puts pages.map(&:value).uniq, Capybara.server == Capybara.servers[:gyre]
    Capybara.reuse_server = false
    Capybara.server = :gyre, { Silent: true, Threads: "0:4" } # as helpers have it for Puma
    again = Capybara::Server.new(Capybara.app).boot
    puts again.port != server.port
  RUBY

  def test_system_tests_are_served_by_it
    Dir.mktmpdir do |folder|
      FileUtils.cp_r("#{APP}/.", folder)
      File.write("#{folder}/system_test.rb", SYSTEM_TEST)
      output = run_program(bundled("development"), RbConfig.ruby, "system_test.rb", chdir: folder)
      assert_equal "1 fiber Gyre::Scheduler\ntrue\ntrue\n", output.out, output.err
    end
  end

  # The pipeline's railtie comes after Gyre's, as Propshaft's may.
  RAKEFILE = <<~'RUBY'
    require_relative "config/application"
    class Pipeline < Rails::Railtie
      rake_tasks { task("assets:precompile") { FileUtils.mkdir_p("public/assets") && File.write("public/assets/app.js", "text " * 1000) } }
    end
    Rails.application.load_tasks
  RUBY

  def test_precompiled_assets_are_compressed
    Dir.mktmpdir do |folder|
      FileUtils.cp_r("#{APP}/.", folder)
      File.write("#{folder}/Rakefile", RAKEFILE)
      output = run_program(bundled("production"), RbConfig.ruby, "-S", "rake", "assets:precompile", chdir: folder)
      assert_path_exists "#{folder}/public/assets/app.js.gz", output.err
    end
  end

  # config.logger is the client of the log server.
  LOGGING = <<~'RUBY'
    ENV["RAILS_ENV"] = "test"
    require "gyre/log/client"
    require "rack/mock"
    require_relative "config/application"
    client = Gyre::Log::Client.new("shop", port: ARGV[0].to_i, spool: false)
    Rails.application.config.logger = ActiveSupport::TaggedLogging.new(client)
    Rails.application.config.silence_healthcheck_path = "/up"
    Rails.application.config.log_tags = [:request_id]
    Rails.application.routes.append { get "up", to: "rails/health#show" }
    Rails.application.initialize!
    %w[/up /version /up].each { |path| print(Rack::MockRequest.new(Rails.application).get(path).status, " ") }
    Rails.logger.silence { Rails.logger.warn("silenced") }
    client.flush(10)
    client.close
  RUBY

  def test_health_checks_are_silenced_in_the_client_of_the_log_server
    GyreTest::FakeLogServer.open do |server|
      Dir.mktmpdir do |folder|
        FileUtils.cp_r("#{APP}/.", folder)
        File.write("#{folder}/logging.rb", LOGGING)
        output = run_program(bundled("test"), RbConfig.ruby, "logging.rb", server.port.to_s, chdir: folder)
        assert_equal "200 200 200 ", output.out, output.err
        assert_equal %w[/version], server.messages.join("\n").scan(/Started GET "([^"]*)"/).flatten
        assert_match(/^\[[\w-]+\] Completed 200 OK/, server.messages.join("\n"))
        refute_includes server.messages, "silenced"
      end
    end
  end

  private

  VERSION_CHANNEL = "app/channels/version_channel.rb"
  private_constant :VERSION_CHANNEL

  def enter(program)
    cable = GyreTest::Cables::Cable.new(self, "http://127.0.0.1:#{program.port}", "ann")
    assert_equal "welcome", cable.read["type"]
    cable.subscribed("VersionChannel")
  end

  def act(cable, action) = cable.send("message", "VersionChannel", action: action)

  # Returns what the channel broadcasts.
  def said(cable) = act(cable, "say").read["message"]

  def assert_restarted(cable)
    assert_equal({ "type" => "disconnect", "reason" => "server_restart", "reconnect" => true }, cable.read)
    assert_nil cable.read
  end

  def change(program, number, file = "app/models/version.rb")
    path = "#{program.folder}/#{file}"
    File.write(path, File.read(path).sub(/= \d/, "= #{number}"))
  end

  def rails_server(environment = {})
    Dir.mktmpdir do |folder|
      FileUtils.cp_r("#{APP}/.", folder)
      old = Time.now - 100 # so that a change is one
      File.utime(old, old, *Dir["#{folder}/app/**/version*.rb"])
      command = [RbConfig.ruby, "bin/rails", "server", "-p", "0", "-b", "127.0.0.1"]
      with_subprocess(bundled("development", **environment), *command, chdir: folder) do |pid, out, err|
        program = Program.new(self, pid, out, err, folder)
        program.expect(/Use Ctrl-C to stop/)
        yield program
        program.signal(:TERM)
        program.status
      end
    end
  end

  def get(program, path)
    Net::HTTP.get(URI("http://127.0.0.1:#{program.port}#{path}"))
  end
end
