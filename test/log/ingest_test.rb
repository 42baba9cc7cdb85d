# frozen_string_literal: true

# What Gyre::Log reports where the extension is not loaded. What the ingest does is in
# test/contracts.
require "test_helper"
require "gyre/log/ingest"
require "zlib"

class LogIngestTest < Minitest::Test
  def test_server_and_client_without_the_extension_report_in_one_line_what_is_missing
    { "server" => "Server.new(bind: 0)", "client" => 'Client.new("app")' }.each do |name, code|
      code = %(require "gyre/log/#{name}"; Gyre::Log::#{code})
      result = ruby("-e", "begin; #{code}; rescue Gyre::ExtensionRequired => error; puts error.message; end", env: { "GYRE_BACKEND" => "select" })
      assert_equal ["the log #{name} needs Gyre's C extension: GYRE_BACKEND=select runs only the loop and the scheduler; unset it\n", ""],
        [result.out, result.err]
    end
  end

  def test_its_checksum_is_zlibs
    Gyre::Loop.require_native("the log client")
    bytes = Random.new(1).bytes(5000)
    [*0..200, 1000, 4990].product([0, 1, 7]).each do |length, offset|
      part = bytes.byteslice(offset, length)
      assert_equal Zlib.crc32(part), Gyre::Log::Ingest.crc32(part), "#{length} bytes from #{offset}"
    end
    assert_raises(TypeError) { Gyre::Log::Ingest.crc32(nil) }
  end

  def test_the_commands_report_it_too
    [%w[-p 0], %w[send app info hello], %w[send --spool spool app info hello]].each do |words|
      result = run_program({ "GYRE_BACKEND" => "select" }, RbConfig.ruby, "-w", "-I#{LIB}", "#{ROOT}/exe/gyre", "log", *words)
      refute_predicate result.status, :success?
      assert_match(/\Agyre log(?: send)?: .*needs Gyre's C extension: .*\n\z/, result.err)
    end
  end
end
