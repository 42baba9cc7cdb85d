# frozen_string_literal: true

# The programs of examples/event_machine, by `gyre em`.
require "test_helper"
require "socket"
require "support/memcached_server"
require "gyre/net"

module EventMachineTests
  class ExamplesTest < Minitest::Test
    def test_the_memcached_client_calls_back_in_order
      server = GyreTest::MemcachedServer.new
      shown = ["asked", "stored: true", "missing was there: false", "a: hello", ["hello", nil, ""].inspect, { a: "hello", b: "hi" }.inspect]
      assert_equal shown, example("memcached", "MEMCACHE_SERVERS" => "127.0.0.1:#{server.port}")
    ensure
      server&.close
    end

    def test_pages_are_fetched_at_once_or_one_after_the_other
      port = free_port
      shown = example("fetch", "PORT" => port.to_s).map { |line| line[/\A[^,]+/] }
      assert_equal ["one page after the other: /a /b", "both at once: /c /d", "by Net::HTTP: /e"], shown
    end

    def test_switches_are_accepted
      assert_equal ["library: extension, TLS: #{Gyre::TLS.available?}", "3 ticks"], example("switches")
    end

    def test_each_example_has_a_test
      assert_equal %w[fetch.rb memcached.rb switches.rb], Dir.children(File.join(ROOT, "examples/event_machine")).sort
    end

    private

    def example(name, environment = {})
      output = run_program(*ruby_command(EXE, "em", File.join(ROOT, "examples/event_machine/#{name}.rb"), env: environment))
      assert_equal "", output.err
      output.out.lines(chomp: true)
    end
  end
end
