# frozen_string_literal: true

# The access log's file: rotation, full disks, several processes. Gyre::Web::LogFile and AccessLog.

require "test_helper"
require "tmpdir"
require "gyre"
require "gyre/web/access_log"
require "gyre/web/server_log"
require "stringio"
require "zlib"
require "web/serving"

class WebLogFileTest < Minitest::Test
  include GyreTest::Serving

  ENVIRONMENT = { "REQUEST_METHOD" => "GET", "REQUEST_URI" => "/#{"a" * 100}", "SERVER_PROTOCOL" => "HTTP/1.1", "REMOTE_ADDR" => "::1" }.freeze

  def test_it_is_appended_to_and_opened_again_after_a_rotation
    in_folder do |path|
      File.write(path, "before\n")
      file = Gyre::Web::LogFile.new(path)
      file.write("one\n")
      File.rename(path, "#{path}.1")
      file.write("two\n")
      file.reopen
      file.write("three\n")
      file.close
      assert_equal ["before\none\ntwo\n", "three\n"], [File.read("#{path}.1"), File.read(path)]
    end
  end

  def test_when_it_cannot_be_opened_again_the_old_one_stays
    in_folder do |path|
      file = Gyre::Web::LogFile.new(path)
      File.rename(path, "#{path}.1")
      Dir.mkdir(path)
      assert_raises(Errno::EISDIR) { file.reopen }
      file.write("one\n")
      file.close
      assert_equal "one\n", File.read("#{path}.1")
    end
  end

  def test_when_the_old_one_fails_to_close_the_new_one_is_used
    in_folder do |path|
      file = Gyre::Web::LogFile.new(path)
      File.rename(path, "#{path}.1")
      file.instance_variable_get(:@io).define_singleton_method(:close) { super() || raise(Errno::EIO) }
      assert_raises(Errno::EIO) { file.reopen }
      file.write("one\n")
      file.close
      assert_equal ["", "one\n"], [File.read("#{path}.1"), File.read(path)]
    end
  end

  def test_a_full_disk_loses_lines_is_reported_once_and_stops_nothing
    errors = StringIO.new
    log = Gyre::Web::AccessLog.new("common", out: Gyre::Web::LogFile.new("/dev/full"), log: Gyre::Web::ServerLog.new(errors: errors))
    3.times { written(log, 200) }
    assert_equal 1, errors.string.scan("No space left on device").size
    log.close
  end

  def test_after_a_full_disk_lines_are_whole_again_and_the_next_one_is_reported_again
    errors = StringIO.new
    out = Class.new(Gyre::Web::LogFile) { attr_accessor :io }.new("/dev/full")
    log = Gyre::Web::AccessLog.new("common", out: out, log: Gyre::Web::ServerLog.new(errors: errors))
    in_folder do |path|
      written(log, 200)
      full = out.instance_variable_get(:@io)
      out.instance_variable_set(:@io, File.open(path, "a"))
      written(log, 201)
      out.instance_variable_get(:@io).close
      out.instance_variable_set(:@io, full)
      written(log, 202)
      assert_equal 2, errors.string.lines.size
      assert_match(/\A::1 .* 201 1\n\z/, File.read(path))
      log.close
    end
  end

  # The kernel took a piece of a line before the disk was full.
  def test_a_torn_line_does_not_spoil_the_next_one
    in_folder do |path|
      file = Gyre::Web::LogFile.new(path)
      io = file.instance_variable_get(:@io)
      calls = 0
      io.define_singleton_method(:syswrite) do |text|
        calls += 1
        raise Errno::ENOSPC if calls == 2

        super(calls == 1 ? text.byteslice(0, 3) : text)
      end
      assert_raises(Errno::ENOSPC) { file.write("first\n") }
      file.write("second\n")
      file.close
      assert_equal "fir\nsecond\n", File.read(path)
    end
  end

  def test_lines_of_several_processes_do_not_mix_in_a_file_or_a_pipe
    in_folder do |path|
      reader, writer = IO.pipe
      reading = Thread.new { reader.read }
      children = Array.new(3) do |number|
        fork do
          reader.close
          logs = [Gyre::Web::AccessLog.new("common", out: Gyre::Web::LogFile.new(path)), Gyre::Web::AccessLog.new("common", out: writer)]
          Gyre.run do
            2000.times { |index| logs.each { |log| log.call(ENVIRONMENT, 200 + number, index, 0.1) } }
            logs.each { |log| await_lines(log) && log.close } # which waits for a second at most
          end
        ensure
          exit!(0)
        end
      end
      writer.close
      children.each { |child| Process.wait(child) }
      [File.read(path), reading.value].each do |text|
        assert_equal 6000, text.lines.size
        assert_empty text.lines.grep_v(%r{\A::1 - - \[[^\]]+\] "GET /a{100} HTTP/1\.1" 20[0-2] \d+\n\z})
      end
      reader.close
    end
  end

  def test_hup_opens_it_again_while_requests_go_on
    serve("--access-log", "access.log", "--log-format", "%m %U %s %{x-request-id}o", "--request-id") do |program|
      path = File.join(program.folder, "access.log")
      program.get("/one")
      eventually { File.read(path).include?("/one") }
      File.rename(path, "#{path}.1")
      program.signal("HUP")
      program.expect(/The access log was opened again/)
      program.get("/two")
      assert_match(/\AGET \/two 200 \h{32}\n\z/, eventually { File.read(path).then { |text| text unless text.empty? } })
      refute_includes program.text(:out), "GET /"
    end
  end

  def test_output_that_nothing_reads_holds_up_no_request
    app = %(run ->(env) { env["PATH_INFO"].start_with?("/raise") ? raise("#{"e" * 2000}") : [200, {}, ["hello"]] })
    serve("--log-format", "common", app: app) do |program|
      socket = TCPSocket.new("127.0.0.1", program.port)
      200.times do |number|
        program.request("/#{number.odd? ? "raise" : "fine"}/#{"x" * 2000}", socket: socket, connection: "keep-alive")
        head = socket.gets("\r\n\r\n")
        assert_equal number.odd? ? "500" : "200", head[9, 3]
        socket.read(head[/content-length: (\d+)/i, 1].to_i)
      end
      socket.close
      eventually { program.text(:out).scan("GET /").size == 200 && program.text(:err).scan("unhandled in the app").size == 100 }
    end
  end

  def test_all_workers_write_to_it_and_open_it_again
    serve("-w", "2", "--access-log", "access.log", "--log-format", "%P %U") do |program|
      path = File.join(program.folder, "access.log")
      seen = eventually do
        program.get("/one")
        File.read(path).scan(%r{^(\d+) /one$}).flatten.uniq.then { |pids| pids if pids.size == 2 }
      end
      File.rename(path, "#{path}.1")
      program.signal("HUP")
      eventually do
        program.get("/two")
        File.exist?(path) && (seen - File.read(path).scan(%r{^(\d+) /two$}).flatten).empty?
      end
      assert_empty File.read(path).lines.grep_v(%r{\A\d+ /(?:one|two)\n\z})
    end
  end

  # With the lines that docs/observe.md has.
  def test_debians_logrotate_loses_no_line
    logrotate = need_program("logrotate")
    serve("--access-log", "access.log", "--log-format", "%U", "--pidfile", "app.pid") do |program|
      Dir.chdir(program.folder) do |folder = program.folder|
        rules = File.read(File.join(GyreTest::Helpers::ROOT, "docs/observe.md"))[/^```text\n(\S*access\.log \{.*?^\}\n)/m, 1]
        File.write("rules", rules.gsub("/var/log/app/", "#{folder}/").gsub("/run/app/", "#{folder}/"))
        File.chmod(0o644, "rules")
        paths = (1..3).map do |number|
          program.get("/#{number}")
          eventually { File.exist?("access.log") && File.read("access.log").include?("/#{number}\n") }
          output = run_program(logrotate, "--force", "--state", "#{folder}/state", "rules", chdir: folder)
          assert_equal ["", 0], [output.err, output.status.exitstatus]
          eventually { program.text(:out).scan("The access log was opened again").size == number }
          "/#{number}\n"
        end
        program.get("/4")
        eventually { File.read("access.log") == "/4\n" }
        older = Dir["access.log.*"].sort.reverse.map { |path| path.end_with?(".gz") ? Zlib.gunzip(File.binread(path)) : File.read(path) }
        assert_equal paths, older
      end
    end
  end

  def test_a_file_that_cannot_be_opened_is_a_start_error
    output = gyre("serve", "-b", "127.0.0.1:0", "--access-log", "missing/access.log",
      files: { "config.ru" => "run ->(_) { [200, {}, []] }" }, gems: true)
    assert_equal 1, output.status.exitstatus
    assert_match(%r{access_log: there is no folder \S+/missing\. Create it, or name another file with --access-log$}, output.err)
  end

  private

  def written(log, status)
    log.call(ENVIRONMENT, status, 1, 0.1)
    await_lines(log)
  end

  def await_lines(log) = eventually { log.instance_variable_get(:@writer).empty? }

  def in_folder
    Dir.mktmpdir { |folder| yield File.join(folder, "access.log") }
  end
end
