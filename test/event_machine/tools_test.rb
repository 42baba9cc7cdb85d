# frozen_string_literal: true

# Deferrable, Completion, queues, iterators and the like, in a reactor. EventMachine's own tests of
# them run by `rake conformance:event_machine`.
require "test_helper"
require "gyre/event_machine"

module EventMachineTests
  class ToolsTest < Minitest::Test
    EM = Gyre::EventMachine

    def setup
      @got = []
    end

    def test_a_callback_may_change_what_the_next_ones_get
      deferrable = EM::DefaultDeferrable.new
      deferrable.callback { |value| deferrable.succeed(value + 1) }
      2.times { deferrable.callback { |value| @got << value } }
      deferrable.errback { @got << :failed }
      deferrable.succeed(1)
      deferrable.fail
      assert_equal [2, 2], @got
    end

    def test_a_timeout_fails_and_success_cancels_it
      EM.run do
        late = EM::DefaultDeferrable.new.timeout(0.01, :late)
        on_time = EM::DefaultDeferrable.new.timeout(0.01, :never)
        on_time.errback { |reason| @got << reason }
        on_time.succeed
        late.errback { |reason| @got << reason and EM.stop }
      end
      assert_equal [:late], @got
    end

    def test_states_of_a_completion
      EM.run do
        completion = EM::Completion.new
        completion.stateback(:half) { |value| @got << [:half, value] }
        completion.completion { |value| @got << [:over, value] }
        completion.errback { @got << :failed }
        completion.change_state(:half, 1)
        completion.succeed(2)
        completion.fail(3)
        EM.stop
      end
      assert_equal [[:half, 1], [:over, 2]], @got
    end

    def test_a_completion_that_a_thread_completes_calls_back_in_the_reactors_thread
      thread = nil
      EM.run do
        completion = EM::Completion.new
        completion.callback { (@got << Thread.current) and EM.stop }
        thread = Thread.new do
          completion.succeed
          completion.state
        end
      end
      assert_equal [[Thread.current], :succeeded], [@got, thread.value]
    end

    def test_an_iterators_step_is_a_proc
      EM.run do
        work = ->(item, step) { [item].each(&->(_) { step.call }) and @got << step.is_a?(Proc) }
        EM::Iterator.new([1, 2]).each(work, -> { EM.stop })
      end
      assert_equal [true, true], @got
    end

    def test_signatures_do_not_return_in_the_next_run
      EM.run { (@got << EM.add_timer(9) { nil }) and EM.stop }
      EM.run do
        EM.add_timer(0.01) { (@got << :fired) and EM.stop }
        EM.cancel_timer(@got.first)
      end
      assert_equal :fired, @got.last
    end

    def test_sockets_may_share_a_datagram_port
      EM.run do
        port = Socket.unpack_sockaddr_in(EM.open_datagram_socket("127.0.0.1", 0).get_sockname).first
        2.times { @got << EM.open_datagram_socket("127.0.0.1", port).get_sock_opt(Socket::SOL_SOCKET, Socket::SO_BROADCAST).unpack1("i") }
        EM.stop
      end
      assert_equal [1, 1], @got
    end

    def test_a_unix_socket_that_nothing_listens_on_raises_at_the_call
      EM.run do
        @got << assert_raises(RuntimeError) { EM.connect_unix_domain("/tmp/gyre-#{Process.pid}-nothing") }.message
        EM.stop
      end
      assert_match(/no connection/, @got.first)
    end

    def test_queue_and_channel_are_fed_by_threads
      EM.run do
        queue, channel = EM::Queue.new, EM::Channel.new
        channel.subscribe { |item| @got << [:channel, item] }
        3.times { queue.pop { |item| @got << item and (EM.stop if item == 3) } }
        Thread.new do
          channel << 1
          queue.push(1, 2, 3)
        end
      end
      assert_equal [[:channel, 1], 1, 2, 3], @got
    end

    def test_an_iterator_runs_so_many_items_at_a_time_and_keeps_the_order
      running = most = 0
      EM.run do
        work = lambda do |item, step|
          most = [most, running += 1].max
          EM.add_timer(0.001 * (10 - item)) { running -= 1 and step.return(item * 2) }
        end
        EM::Iterator.new(1..9, 3).map(work, ->(results) { @got = results and EM.stop })
      end
      assert_equal [3, (1..9).map { |item| item * 2 }], [most, @got]
    end

    # As em-synchrony's FiberIterator, whose `each` works in fibers.
    def test_a_subclass_that_changes_each_changes_map_and_inject
      seen = []
      kind = Class.new(EM::Iterator) do
        define_method(:each) { |work, after| super(->(item, step) { seen << item and work.call(item, step) }, after) }
      end
      EM.run do
        kind.new([1, 2], 2).map(->(item, step) { step.return(item * 2) }, lambda { |doubled|
          kind.new(doubled).inject(0, ->(sum, item, step) { step.return(sum + item) }, ->(sum) { seen << sum and EM.stop })
        })
      end
      assert_equal [1, 2, 2, 4, 6], seen
    end

    def test_an_item_that_ends_twice_is_an_error
      error = assert_raises(RuntimeError) { EM.run { EM::Iterator.new([1]).each { |_, step| 2.times { step.next } } } }
      assert_match(/already completed/, error.message)
    end

    def test_failed_work_of_a_pool_returns_its_resource
      EM.run do
        pool = EM::Pool.new
        pool.add(:resource)
        2.times { pool.perform { |resource| @got << resource and EM::DefaultDeferrable.new.tap(&:fail) } }
        EM.next_tick { @got << pool.contents and EM.stop }
      end
      assert_equal [:resource, :resource, [:resource]], @got
    end

    def test_a_tick_loop_stops_by_its_result
      EM.run do
        ticks = EM.tick_loop { (@got << @got.size).size == 3 ? :stop : nil }
        ticks.on_stop { EM.stop }
      end
      assert_equal [0, 1, 2], @got
    end

    def test_a_spawned_process_continues_with_another_block
      got = @got
      EM.run do
        process = EM.spawn { |number| got << number and EM.yield { |other| got << -other and EM.stop } }
        process.notify(1)
        process.notify(2)
      end
      assert_equal [1, -2], @got
    end

    def test_a_threaded_resource_answers_in_the_reactor
      EM.run do
        resource = EM::ThreadedResource.new { Thread.current }
        resource.dispatch { |thread| thread != Thread.current }.callback { |own| @got << own }
        resource.dispatch { raise "broken" }.errback do |error|
          @got << error.message << EM.reactor_thread?
          resource.shutdown
          EM.stop
        end
      end
      assert_equal [true, "broken", true], @got
    end

    def test_an_io_is_streamed_to_an_object_that_only_sends
      sender = Class.new { define_method(:send_data) { |data| (@sent ||= +"") << data and data.bytesize } }.new
      EM::IOStreamer.new(sender, StringIO.new("a" * 20_000), http_chunks: true).callback { @got << :over }
      assert_equal [:over], @got
      assert_equal "4000\r\n#{"a" * 16_384}\r\ne20\r\n#{"a" * 3616}\r\n0\r\n\r\n", sender.instance_variable_get(:@sent)
    end

    def test_names_are_resolved
      EM.run do
        EM::DNS::Resolver.resolve("localhost").callback do |addresses|
          @got << addresses
          EM::DNS::Resolver.resolve("a name").errback { |reason| @got << reason and EM.stop }
        end
      end
      assert_includes [["127.0.0.1"], ["::1", "127.0.0.1"], ["::1"], ["127.0.0.1", "::1"]], @got.first
      assert_kind_of String, @got.last
      assert_raises(ArgumentError) { EM::DNS::Resolver.resolve(1) }
    end
  end
end
