# frozen_string_literal: true

require "test_helper"
require "event_machine/reactors"
require "io/wait"

# A daemon's reactor goes on. A forked child has none until it runs its own.
class EventMachineForksTest < Minitest::Test
  include GyreTest::Reactors

  def test_a_daemon_goes_on_with_its_server_ticks_and_timers_and_can_stop
    IO.pipe do |reader, writer|
      code = <<~RUBY
        require "gyre/event_machine"
        EM = Gyre::EventMachine
        out = IO.for_fd(#{writer.fileno})
        client = Class.new(EM::Connection) do
          define_method(:receive_data) do |data|
            out.write(data)
            EM.next_tick { EM.add_timer(0.001) { EM.stop } }
          end
        end
        EM.run do
          server = EM.start_server("127.0.0.1", 0, Class.new(EM::Connection) { def post_init = send_data("greeting ") })
          port = EM.reactor.descriptors[server].io.local_address.ip_port
          EM.next_tick do
            Process.daemon
            out.write(EM.reactor_running?, " ")
            EM.connect("127.0.0.1", port, client)
          end
        end
        out.write("over")
      RUBY
      pid = Process.spawn(RbConfig.ruby, "-w", "-I#{GyreTest::Helpers::LIB}", "-e", code, writer => writer)
      writer.close
      Process.wait(pid)
      text = +""
      text << reader.readpartial(100) until text.end_with?("over")
      assert_equal "true greeting over", text
    end
  end

  def test_a_childs_reactor_closes_its_copies_and_leaves_the_parents_connections_alone
    skip "needs /proc" unless File.directory?("/proc/self/fd")
    told = []
    parent = Process.pid
    child = nil
    IO.pipe do |reader, writer|
      run_reactor do
        port = serve(Echo)
        client = EM.connect("127.0.0.1", port, Told, ->(name, *rest) { told << [name, *rest.grep(String)] and EM.stop if name == :receive_data })
        EM.add_shutdown_hook { told << :hook }
        fork = lambda do
          EM.next_tick { writer.write("a tick of the parent") unless Process.pid == parent }
          sockets = EM.reactor.descriptors.each_value.map { |descriptor| File.readlink("/proc/self/fd/#{descriptor.io.fileno}") }
          child = EM.fork_reactor { EM.next_tick { report(writer) { [open_files & sockets, EM.connection_count, EM.reactor_running?] } } }
          EM.defer(-> { reader.wait_readable }, ->(_) { client.send_data("goes on") })
        end
        EM.add_timer(0.01, fork)
      end
      assert_equal [[], 0, true].inspect, reader.readpartial(200)
      assert_equal [[:receive_data, "goes on"], :hook], told
      assert_predicate Process.wait2(child).last, :success?
    end
  end

  def test_a_child_may_stop_and_a_child_of_a_callback_leaves_run_behind_it
    IO.pipe do |reader, writer|
      parent = Process.pid
      run_reactor do
        EM.next_tick do
          Process.wait(fork { report(writer) { [EM.reactor_running?, EM.stop] } })
          pid = fork
          Process.wait(pid) if pid
          EM.stop
        end
      end
      report(writer) { "left run" } unless Process.pid == parent
      assert_equal "#{[false, nil].inspect}#{"left run".inspect}", reader.readpartial(200)
    end
  end

  def test_deferred_work_runs_in_a_child_also_with_a_reactor_for_each_thread
    EM.one_for_each_thread = true
    run_reactor { EM.defer(-> { 1 }, ->(_) { EM.stop }) }
    IO.pipe do |reader, writer|
      Process.wait(fork { EM.run { EM.defer(-> { "ran" }, ->(text) { report(writer) { text } }) } })
      assert_equal "ran".inspect, reader.readpartial(100)
    end
  ensure
    EM.one_for_each_thread = false
    EM.stop_threads
  end

  private

  def open_files
    Dir.children("/proc/self/fd").filter_map { |fd| File.readlink("/proc/self/fd/#{fd}") if File.symlink?("/proc/self/fd/#{fd}") }
  end

  # Ends a child, without the suite's hooks.
  def report(writer)
    writer.write(yield.inspect)
    exit!(true)
  rescue Exception # rubocop:disable Lint/RescueException -- whatever it is, the child must not go on
    exit!(false)
  end
end
