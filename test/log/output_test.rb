# frozen_string_literal: true

# Gyre::Log::Output.open: which output settings make, and what is reported about wrong ones.

require "test_helper"
require "tmpdir"
require "gyre"
require "gyre/log/output"

class LogOutputTest < Minitest::Test
  Output = Gyre::Log::Output

  def setup
    @folder = Dir.mktmpdir
  end

  def teardown
    FileUtils.remove_entry(@folder)
  end

  def test_a_path_is_a_file
    with_output(logfile: path("a.log")) do |output|
      assert_instance_of Output::FileOutput, output
      assert_equal [path("a.log"), :text, nil, 0], [output.to_s, output.format, output.trouble, output.stored_by("a" * 32)]
    end
    with_output("logfile" => path("b.log"), "type" => "file", "format" => "json") { |output| assert_equal :json, output.format }
  end

  # A server asks them all alike.
  def test_each_output_has_the_whole_contract
    { path("a.log") => [:text, 0], "STDOUT" => [:text, 0], "tcp://localhost:99" => [:text, 0],
      "redis://localhost:99" => [:redis, nil] }.each do |logfile, (format, stored)|
      with_output(logfile: logfile) do |output|
        %i[write sync reopen close stored_by to_s].each { |name| assert_respond_to output, name, logfile }
        assert_equal [format, format, nil], [output.format, output.sink_options[:format], output.trouble], logfile
        assert_nil output.sync
        assert_equal stored, output.stored_by("a" * 32) if stored
      end
    end
  end

  def test_the_words_for_the_standard_streams
    { "STDOUT" => "STDOUT", "-" => "STDOUT", nil => "STDOUT", "" => "STDOUT", "STDERR" => "STDERR", "stderr" => "STDERR" }.each do |word, name|
      with_output(logfile: word) { |output| assert_equal [Output::StreamOutput, name], [output.class, output.to_s] }
    end
    with_output(type: "stderr") { |output| assert_equal "STDERR", output.to_s }
    refute $stdout.closed?
  end

  def test_sockets_also_as_analogger_writes_them
    { { logfile: "tcp://localhost:99" } => "tcp://localhost:99", { logfile: "unix:///x/y" } => "unix:///x/y",
      { type: "socket", logfile: "loghost", options: [99] } => "tcp://loghost:99",
      { type: "socket", logfile: "tcp://[::1]:99" } => "tcp://[::1]:99" }.each do |settings, name|
      with_output(settings) { |output| assert_equal [Output::SocketOutput, name], [output.class, output.to_s] }
    end
  end

  def test_redis_by_its_url_and_no_password_shows
    { { logfile: "redis://me:secret@host:99/3" } => "redis://host:99/3 gyre",
      { logfile: "redis+unix:///x/y?db=2", options: { "stream" => "s", "max_length" => 9 } } => "redis+unix:///x/y?db=2 s",
      { type: "redis", logfile: "host" } => "redis://host gyre",
      { type: "redis", logfile: "/x/y" } => "redis+unix:///x/y gyre" }.each do |settings, name|
      with_output(settings) { |output| assert_equal [Output::RedisOutput, name, :redis], [output.class, output.to_s, output.format] }
    end
  end

  def test_the_scheme_decides_the_kind
    kinds = { "tcp://a:1" => Output::SocketOutput, "unix:///a" => Output::SocketOutput, "redis://a" => Output::RedisOutput,
              "rediss://a" => Output::RedisOutput, "redis+unix:///a" => Output::RedisOutput, "/a" => Output::FileOutput, "a:1" => Output::FileOutput }
    assert_equal(kinds, kinds.to_h { |target, _| [target, Output.kind_at(target)] })
    %w[udp:// http://a TCP://a:1 file:///a].each do |target|
      assert_match(/\Anothing can be written to #{target[/.*?:/]}/, assert_raises(ArgumentError) { Output.kind_at(target) }.message)
    end
  end

  def test_a_device_and_a_named_pipe_are_streams
    with_output(logfile: "/dev/null") { |output| assert_instance_of Output::StreamOutput, output }
    File.mkfifo(path("pipe"))
    with_output(logfile: path("pipe")) { |output| assert_instance_of Output::StreamOutput, output }
    IO.pipe do |_reader, writer|
      with_output(logfile: "/dev/fd/#{writer.fileno}") { |output| assert_instance_of Output::StreamOutput, output }
    end
  end

  def test_what_cannot_be_opened_is_reported_with_the_key
    File.write(path("plain"), "")
    { { logfile: @folder } => /logs\[2\]\.logfile: .* is a folder/,
      { logfile: path("missing/a.log") } => /logs\[2\]\.logfile: the folder .*missing is not there: make it first/,
      { logfile: path("plain/a.log") } => /logs\[2\]\.logfile: .*plain/,
      { logfile: "/proc/gyre.log" } => %r{logs\[2\]\.logfile: cannot write to /proc/gyre\.log},
      { type: "mail", logfile: "a" } => /type: must be file, .*, not "mail"/,
      { type: "socket", logfile: "host" } => /a socket needs/,
      { logfile: "redis://host/x" } => /database .* is a number/,
      { logfile: "redis://h", options: { "maxlen" => 1 } } => /options\.maxlen: unknown key/,
      { logfile: path("a"), options: { "stream" => "s" } } => /options: this kind of output has none by name/,
      { logfile: "tcp://h:1", options: { "stream" => "s" } } => /options: this kind of output has none by name/,
      { logfile: path("a"), format: "xml" } => /format: must be text or json, not "xml"/,
      { logfile: path("a"), rotate: { "size" => "many" } } => /rotate\.size: .*"many"/ }.each do |settings, message|
      error = assert_raises(ArgumentError, settings.inspect) { Output.open(settings, key: "logs[2].logfile") }
      assert_match message, error.message
    end
  end

  def test_a_file_without_permission_is_reported
    skip "root may write everywhere" if Process.uid.zero?

    File.write(path("a.log"), "")
    File.chmod(0o444, path("a.log"))
    assert_match(/cannot write to .*Permission denied/, assert_raises(ArgumentError) { Output.open({ logfile: path("a.log") }) }.message)
  end

  private

  def path(name)
    File.join(@folder, name)
  end

  def with_output(settings)
    output = Output.open(settings)
    yield output
  ensure
    output&.close
  end
end
