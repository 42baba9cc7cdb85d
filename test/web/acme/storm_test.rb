# frozen_string_literal: true

# `gyre serve --acme` under hardship: rake test:acme. Handshakes while certificates are renewed and
# workers restarted, two supervisors on one folder, restarts within an order, a full disk, a wrong
# clock.

require "test_helper"
require "set"
require "support/acme"
require "support/acme_front"
require_relative "../serving"

class WebACMEStormTest < Minitest::Test
  include GyreTest::Serving
  include GyreTest::ACMEPrograms

  HANDSHAKES = Integer(ENV.fetch("GYRE_HANDSHAKES", "400"))

  def test_no_handshake_fails_while_certificates_are_renewed_and_workers_restarted
    serve("-w", "2", *plain, port: false, env: trusting) do |program|
      await_certificate(program)
      serials = Set.new
      clients = [true, false].map { |resumes| Thread.new { shake_hands(secure_port(program), HANDSHAKES / 2, resumes, serials) } }
      renew_and_restart(program) while clients.any?(&:alive?)
      assert_empty clients.flat_map(&:value).tally
      assert_operator serials.size, :>, 2
      puts "#{HANDSHAKES} handshakes under #{serials.size} certificates: none has failed"
    end
  end

  # The second answers no challenges: an answer follows from the account's key.
  def test_one_of_two_supervisors_on_a_folder_orders_and_both_serve_its_certificate
    Dir.mktmpdir do |folder|
      common = ["-w", "1", "--acme", NAME, "--acme-folder", folder, "-b", "ssl://127.0.0.1:0"]
      serve(*common, "-b", "tcp://127.0.0.1:#{pebble.http_port}", port: false, env: trusting) do |first|
        serve(*common, "-b", "tcp://127.0.0.1:0", port: false, env: trusting) do |second|
          programs = [first, second]
          serials = programs.map { |program| await_certificate(program).serial }
          assert_equal 1, serials.uniq.size
          assert_equal(1, programs.sum { |program| program.text(:out).scan("has a certificate until").size })
          answers = programs.map { |program| Thread.new { ctl(program, "renew") } }.map(&:value).sort
          assert_includes [["renew: done\n"] * 2, ["gyre ctl: renew: another process orders certificates just now\n", "renew: done\n"]], answers
          newest = File.read(Dir.glob("#{folder}/**/#{NAME}.pem").first)
          programs.each { |program| await_certificate(program, serial: OpenSSL::X509::Certificate.new(newest).serial) }
        end
      end
    end
  end

  def test_restarts_within_an_order
    held = nil
    asked = Thread::Queue.new
    front = GyreTest::ACMEFront.new(pebble)
    front.answer = lambda do |path, payload|
      asked << path if held && payload && path.start_with?("/finalize")
      sleep 0.01 while held && path.start_with?("/finalize")
    end
    held = true
    serve("-w", "1", *plain, port: false, env: { **trusting, "ACME_DIRECTORY" => front.directory }) do |program|
      asked.pop
      program.signal(:USR1)
      program.expect(/Rolling restart: all workers run the new code/)
      held = false
      first = await_certificate(program).serial
      held = true
      renewal = Thread.new { ctl(program, "renew") }
      asked.pop
      program.signal(:USR2)
      program.expect(/Hot restart: all workers run the new code/)
      held = false
      renewal.join
      assert_equal first, certificate(program).serial
      assert_equal(2, front.seen.count { |path, payload| path == "/order-plz" && payload }) # a rehearsal and the next program order nothing
      assert_equal "renew: done\n", ctl(program, "renew")
      refute_equal first, await_certificate(program, serial: newest(program).serial).serial
    end
  ensure
    held = false
    front.close
  end

  def test_a_full_disk_is_an_error_and_the_old_certificate_serves
    skip "mounts need root" unless Process.uid.zero?
    Dir.mktmpdir do |disk|
      assert system("mount", "-t", "tmpfs", "-o", "size=64k", "none", disk)
      serve("-w", "1", *plain, "--acme-folder", disk, port: false, env: trusting) do |program|
        first = await_certificate(program).serial
        File.open(File.join(disk, "filler"), "w") { |file| loop { file.syswrite("x" * 4096) } } rescue nil # until it is full
        assert_match(/No space left on device/, ctl(program, "renew"))
        program.signal(:HUP)
        program.expect(/HUP: the workers/)
        assert_equal first, certificate(program).serial
        File.unlink(File.join(disk, "filler"))
        assert_equal "renew: done\n", ctl(program, "renew")
      end
    ensure
      system("umount", disk)
    end
  end

  def test_with_a_root_that_is_read_only_the_folder_is_a_volume
    skip "mounts need root" unless Process.uid.zero?
    Dir.mktmpdir do |folder|
      Dir.mkdir(volume = File.join(folder, "kept"))
      write(File.join(folder, "config.ru"), APP)
      start = lambda do |*flags|
        environment, *command = ruby_command(GyreTest::Helpers::EXE, "serve", "-w", "1", *plain, *flags, env: trusting, gems: true)
        [environment, "unshare", "-m", "sh", "-c", 'mount --bind "$0" "$0" && mount -o remount,ro,bind / && exec "$@"', volume, *command]
      end
      { [] => /Read-only file system/, ["--check"] => /this user may not write in #{folder}/ }.each do |flags, words|
        assert_match(words, run_program(*start.call(*flags, "--acme-folder", File.join(folder, "x/y")), chdir: folder).err)
      end
      with_subprocess(*start.call, chdir: folder) do |pid, out, err|
        Program.new(self, pid, out, err, folder).expect(/has a certificate until/)
      end
    end
  end

  def test_a_clock_that_is_wrong_is_told
    need_program("faketime")
    library = Dir.glob("/usr/lib/*/faketime/libfaketimeMT.so.1").first
    { -1800 => /this machine's clock is wrong by -1\d{3} s/, -10 * 86_400 => /is this machine's clock right\? It says 20/ }.each do |offset_s, words|
      environment = { "LD_PRELOAD" => library, "FAKETIME" => offset_s.to_s, "FAKETIME_DONT_FAKE_MONOTONIC" => "1", "FAKETIME_NO_CACHE" => "1" }
      serve(*plain, port: false, env: { **trusting, **environment }) { |program| program.expect(words, :err) }
    end
  end

  private

  def renew_and_restart(program)
    3.times { ctl(program, "renew") }
    { USR1: /Rolling restart: all workers run/, USR2: /Hot restart: all workers run/ }.each do |signal, words|
      seen = program.text(:out).scan(words).size
      program.signal(signal)
      eventually { program.text(:out).scan(words).size > seen }
    end
  end

  def newest(program) = OpenSSL::X509::Certificate.new(File.read(Dir.glob("#{program.folder}/kept/*/#{NAME}.pem").first))

  # Returns why handshakes or their requests have failed.
  def shake_hands(port, count, resumes, serials)
    session = nil
    context = GyreTest::OpenSSLPeer.client do |made|
      made.session_cache_mode = OpenSSL::SSL::SSLContext::SESSION_CACHE_CLIENT
      made.session_new_cb = ->((_, given)) { session = given }
    end
    Array.new(count) { shake(port, context, resumes ? session : nil, serials) }.compact
  end

  def shake(port, context, session, serials)
    socket = OpenSSL::SSL::SSLSocket.new(TCPSocket.new("127.0.0.1", port), context)
    socket.sync_close = true
    socket.hostname = NAME
    socket.session = session if session
    socket.connect
    socket.write("GET / HTTP/1.1\r\nhost: #{NAME}\r\nconnection: close\r\n\r\n")
    answer = socket.read
    serials << socket.peer_cert.serial
    answer.end_with?("hello") ? nil : "no answer: #{answer.inspect}"
  rescue SystemCallError, OpenSSL::SSL::SSLError => error
    "#{error.message} (#{error.class})"
  ensure
    socket&.close
  end
end
