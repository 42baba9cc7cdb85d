# frozen_string_literal: true

# Servers whose `ms` has no length: no byte of a value reaches them.
require "test_helper"
require "gyre"
require "gyre/memcached"

class MemcachedVersionsTest < Minitest::Test
  # Parses as memcached 1.6.0 to 1.6.9 and 1.5 do: a line of a value is a command.
  class Old
    attr_reader :lines

    def initialize(version)
      @version, @lines = version, []
      @listener = TCPServer.new("127.0.0.1", 0)
      @thread = Thread.new { loop { serve(@listener.accept) } }
      @thread.report_on_exception = false
    end

    def address = "127.0.0.1:#{@listener.addr[1]}"

    def close
      @thread.kill.join
      @listener.close
    end

    private

    def serve(peer)
      while (line = peer.gets("\n", chomp: true)&.delete_suffix("\r"))
        @lines << line
        peer.write(reply(line))
      end
    rescue SystemCallError, IOError
      nil
    ensure
      peer.close
    end

    def reply(line)
      case line
      when "version" then "VERSION #{@version}\r\n"
      when /\Ams \S+ \d/ then "CLIENT_ERROR invalid flag\r\n"
      when "mn" then "MN\r\n"
      when "flush_all" then "OK\r\n"
      else "ERROR\r\n"
      end
    end
  end

  STORES = {
    "set" => ->(cache, value) { cache.set("key", value) }, "add" => ->(cache, value) { cache.add("key", value) },
    "append" => ->(cache, value) { cache.append("key", value) }, "set_multi" => ->(cache, value) { cache.set_multi({ "key" => value }) },
    "set with options" => ->(cache, value) { cache.set("key", value, 60, raw: true) },
    "pipeline" => ->(cache, value) { cache.pipeline { |pipeline| pipeline.set("other", value).set("key", value) } },
    "set_multi with options" => ->(cache, value) { cache.set_multi({ "key" => value }, 60, { raw: true }) }
  }.freeze

  def test_no_line_of_a_value_is_carried_out_and_the_error_names_the_version
    %w[1.6.9 1.6.0 1.5.22].product([true, false]).each do |version, in_loop|
      server = Old.new(version)
      STORES.each do |name, store|
        cache = Gyre::Memcached::Client.new(server.address)
        run = ->(*) { assert_raises(Gyre::Memcached::CommandError, name) { store.call(cache, "hello\r\nflush_all\r\n") } }
        error = in_loop ? Gyre.run(&run) : run.call
        assert_match(/ at memcached #{server.address}: its version is #{version}, and values need memcached 1\.6\.10 or newer/, error.message)
        cache.close
      end
      assert_equal %w[version], server.lines.uniq
    ensure
      server&.close
    end
  end

  def test_a_quiet_block_sends_no_value_either
    server = Old.new("1.6.9")
    cache = Gyre::Memcached::Client.new(server.address)
    assert_raises(Gyre::Memcached::CommandError) { cache.quiet { cache.set("key", "a\r\nflush_all\r\n") } }
    refute_includes server.lines, "flush_all"
  ensure
    [cache, server].compact.each(&:close)
  end
end
