# frozen_string_literal: true

# How a program beside the workers reaches its supervisor: each process by a socket of its own;
# test/cluster/broadcast_test.rb has whole programs.

require "test_helper"
require "gyre/broadcast/uplink"

class BroadcastUplinkTest < Minitest::Test
  def setup
    @supervisor, @inherited = UNIXSocket.pair
    @carrier = Gyre::Broadcast::Uplink.new(@inherited).carrier
  end

  def teardown
    @carrier.send(:finish)
    @inherited.autoclose = true
    [@supervisor, @inherited, *@joined].each(&:close)
  end

  def test_a_process_whose_socket_was_closed_joins_again_and_sends_the_same
    @carrier.start
    @carrier.offer("[1]")
    first = joined
    assert_equal "{\"broadcast\":[1]}\n", first.gets
    first.close
    @carrier.offer("[2]")
    second = joined
    assert_equal "{\"broadcast\":[2]}\n", second.gets
  end

  def test_the_end_of_the_supervisor_is_told_once
    _, said = capture_io do
      @supervisor.close
      @carrier.start
      @carrier.instance_variable_get(:@thread).join
      @carrier.offer("[1]")
    end
    assert_match(/\Agyre: the supervisor does not take broadcasts any more: .*; those of this process are lost\n\z/, said)
  end

  def test_a_descriptor_that_a_program_between_has_closed_or_used_again_is_left_alone
    was = ENV.fetch(Gyre::Broadcast::Uplink::VARIABLE, nil)
    carriers = Gyre::Broadcast::Relay.attached?
    ["", "nonsense", "#{@inherited.fileno} 1", "#{@inherited.fileno + 1000} 1"].each do |text|
      ENV[Gyre::Broadcast::Uplink::VARIABLE] = text
      assert_nil Gyre::Broadcast::Uplink.attach
    end
    assert_equal carriers, Gyre::Broadcast::Relay.attached?
    @carrier.start # for the end
  ensure
    ENV[Gyre::Broadcast::Uplink::VARIABLE] = was
  end

  private

  def joined
    text, _, _, rights = @supervisor.recvmsg(scm_rights: true)
    assert_equal "{\"join\":true}\n", text
    rights.unix_rights.first.tap { |socket| (@joined ||= []) << socket }
  end
end
