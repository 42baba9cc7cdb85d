# frozen_string_literal: true

# Listening sockets that a fresh program inherits: taken by what they are bound to, however the
# settings write it.

require "json"
require "test_helper"
require "tmpdir"
require "gyre/errors"
require "gyre/cluster/sockets"

class ClusterSocketsTest < Minitest::Test
  Sockets = Gyre::Cluster::Sockets

  def test_a_socket_is_taken_over_after_the_same_text = check_taken_over("tcp://127.0.0.1:PORT", "tcp://127.0.0.1:PORT", %w[127.0.0.1], [])

  def test_a_socket_is_taken_over_after_a_port_that_the_kernel_chose = check_taken_over("tcp://127.0.0.1:0", "tcp://127.0.0.1:0", %w[127.0.0.1], [])

  def test_a_socket_is_taken_over_after_localhost_for_its_address
    check_taken_over("tcp://127.0.0.1:PORT", "tcp://localhost:PORT", %w[127.0.0.1], %w[::1])
  end

  def test_a_socket_is_taken_over_after_an_address_for_localhost = check_taken_over("tcp://localhost:PORT", "tcp://127.0.0.1:PORT", %w[127.0.0.1], [])

  def test_a_socket_is_taken_over_after_one_family_for_every_host = check_taken_over("tcp://*:PORT", "tcp://0.0.0.0:PORT", %w[0.0.0.0], [])

  def test_a_socket_is_taken_over_after_every_host_for_one_family = check_taken_over("tcp://0.0.0.0:PORT", "tcp://*:PORT", %w[0.0.0.0], %w[::])

  def test_a_socket_is_taken_over_after_both_families_in_one_socket_for_every_host = check_taken_over("tcp://[::]:PORT", "tcp://*:PORT", %w[::], [])

  def test_a_socket_is_taken_over_after_every_host_for_both_families_in_one_socket
    check_taken_over("tcp://*:PORT", "tcp://[::]:PORT", %w[0.0.0.0 ::], [])
  end

  def test_a_socket_is_taken_over_after_tls = check_taken_over("tcp://127.0.0.1:PORT", "ssl://127.0.0.1:PORT?cert=c&key=k", %w[127.0.0.1], [])

  # Takes addresses before and after, those that are taken over, and those bound beside them.
  def check_taken_over(before, after, taken, bound)
    skip "this machine has one family of addresses" if (taken + bound).any? { |host| host.include?(":") } && !ipv6?
    with_former(before) do |inherited, port|
      open_again(after, inherited, port) do |fresh, others|
        now = fresh.listeners.to_h { |listener| [listener.endpoint.host, listener.fileno] }
        assert_equal (taken + bound).sort, now.keys.sort
        kept = inherited.select { |socket| taken.include?(socket.host) }
        assert_equal kept.to_h { |socket| [socket.host, socket.descriptor] }, now.except(*bound)
        assert_equal inherited.map(&:host) - taken, others.map(&:host)
      end
    end
  end

  def test_a_unix_socket_is_the_same_by_another_path
    Dir.mktmpdir do |folder|
      File.symlink(folder, "#{folder}/link")
      with_former("unix://#{folder}/app.sock") do |inherited, _|
        open_again("unix://#{folder}/link/app.sock", inherited) do |fresh, others|
          assert_empty others
          assert_equal inherited.map(&:descriptor), fresh.listeners.map(&:fileno)
        end
      end
    end
  end

  def test_a_socket_of_ours_that_is_in_the_way_is_named
    with_former("tcp://127.0.0.1:PORT") do |inherited, port|
      error = assert_raises(Gyre::StartError) { open_again("tcp://*:PORT", inherited, port) { flunk } }
      assert_match(%r{listen on tcp://\*:#{port}: tcp://127\.0\.0\.1:#{port}, which this server listens on, is in its place}, error.message)
    ensure
      inherited.each(&:close)
    end
  end

  def test_an_own_socket_that_is_not_needed_is_closed_with_its_file = check_unneeded_socket(owned: true)

  def test_a_borrowed_socket_that_is_not_needed_is_closed_without_its_file = check_unneeded_socket(owned: false)

  def check_unneeded_socket(owned:)
    Dir.mktmpdir do |folder|
      with_former("unix://#{folder}/app.sock", owned: owned) do |inherited, _|
        inherited.each(&:close)
        assert_equal !owned, File.exist?("#{folder}/app.sock")
      end
    end
  end

  private

  def endpoint(text, port = 0) = Gyre::Endpoint.parse(text.sub("PORT", port.to_s), tls: true)

  def with_former(text, owned: true)
    port = free_port
    former = Sockets.new
    former.open([endpoint(text, port)])
    inherited = Sockets.from(JSON.parse(JSON.generate(former.to_a)), owned: owned)
    inherited.each { |socket| socket.descriptor = IO.for_fd(socket.descriptor, autoclose: false).dup.tap { |io| io.autoclose = false }.fileno }
    yield inherited, port
  ensure
    former&.listeners&.each(&:close)
  end

  def open_again(text, inherited, port = 0)
    fresh = Sockets.new
    others = fresh.open([endpoint(text, port)], inherited: inherited)
    yield fresh, others
  ensure
    [*others, *fresh.listeners].each(&:close)
  end

  def ipv6? = Socket.ip_address_list.any?(&:ipv6_loopback?)
end
