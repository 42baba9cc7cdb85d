# frozen_string_literal: true

# How the tree of tasks looks in print: what each does, how old it is and where.

require "test_helper"
require "support/engines"
require "stringio"
require "gyre"

GyreTest::Engines.test_case("InspectionTaskHierarchyTest") do
  # The lines below the first one, which is the test's own task, without the ages.
  def lines(task, **options)
    out = StringIO.new
    assert_nil task.print_hierarchy(out, **options)
    out.string.lines(chomp: true).map { |line| line.gsub(/\d+\.\d s old/, "0 s old").gsub(__FILE__, "file").gsub(%r{test/.*?_test\.rb}, "file") }
  end

  # Runs the block as the only child, and shows what is printed of it while it waits.
  def shown(ready = -> {}, &job)
    Gyre.run do |task|
      child = task.async("child", &job)
      ready.call
      lines(task).fetch(1)
    ensure
      child.stop
    end
  end

  def test_it_shows_names_annotations_and_waits_indented_like_a_tree
    place = nil
    shown = Gyre.run do |task|
      task.async("fetch") do |fetch|
        fetch.annotate("GET /index.html")
        place = __LINE__ + 1
        fetch.async { sleep }
        fetch.async("parse") { sleep }
        sleep
      end
      task.async("clock", transient: true) { sleep }
      lines(task).tap { task.children.first.stop }
    end
    assert_match(/\Atask "main": running \[0 s old, file:\d+\]\z/, shown.shift)
    assert_equal [
      %(├── task "fetch" (GET /index.html): sleeping [0 s old, file:#{place + 2}]),
      %(│   ├── task at file:#{place}: sleeping [0 s old, file:#{place}]),
      %(│   └── task "parse": sleeping [0 s old, file:#{place + 1}]),
      %(└── task "clock": sleeping [transient, 0 s old, file:#{place + 4}])
    ], shown
  end

  def test_it_prints_to_standard_output_by_default
    out, = capture { Gyre.run("alone", &:print_hierarchy) }
    assert_match(/\Atask "alone": running \[\d+\.\d s old\]\n\z/, out)
  end

  def test_it_shows_the_result_of_a_finished_task
    out = StringIO.new
    Gyre.run { |task| task.async("done") { nil }.print_hierarchy(out) }
    assert_equal %(task "done": completed\n), out.string
  end

  def test_it_works_in_a_ractor_and_in_a_folder_that_was_removed
    code = <<~RUBY
      require "gyre"
      require "tmpdir"
      def stuck
        Gyre.run do |task|
          one, two = Mutex.new, Mutex.new
          task.async("a") { one.synchronize { task.yield; two.synchronize { nil } } }
          task.async("b") { two.synchronize { one.synchronize { nil } } }
          task.print_hierarchy
        end
      rescue Gyre::Error => error
        puts error.class
      end
      Ractor.new { stuck }.then { |ractor| ractor.respond_to?(:value) ? ractor.value : ractor.take }
      Dir.mktmpdir { |folder| Dir.chdir(folder) && Dir.rmdir(folder) && stuck; Dir.chdir("/"); Dir.mkdir(folder) }
    RUBY
    run = ruby("-W:no-experimental", "-e", code)
    assert_equal ["", 2, 2], [run.err, run.out.scan(/task "a": .*-e:6\]$/).size, run.out.scan(/^Gyre::DeadlockError$/).size], run.out
  end

  def test_a_mutex_shows_its_owner_also_when_that_waits_for_something_else
    Gyre.run do |task|
      mutex = Mutex.new
      owner = task.async("owner") { mutex.synchronize { sleep } }
      waiting = task.async("waiting") { mutex.synchronize { nil } }
      assert_match(/task "waiting": waiting for a mutex that task "owner" holds \[/, lines(task).last)
      elsewhere = Thread.new { lines(task).last }.value
      assert_match(/task "waiting": waiting for a mutex \[/, elsewhere) # no fiber can be asked from there
      owner.stop
      waiting.wait
    end
  end

  def test_a_mutex_that_no_task_holds_belongs_to_the_caller_or_to_a_fiber
    mutex = Mutex.new
    mutex.synchronize do
      line = shown { mutex.synchronize { nil } }
      assert_match(/waiting for a mutex that the caller of Gyre.run holds/, line)
    end
  end

  def test_timers_show_how_long_still
    assert_match(/sleeping, (?:[12]\d|30)\.\d s left \[/, shown { sleep 30 })
  end

  def test_descriptors_show_number_and_peer
    server = TCPServer.new("127.0.0.1", 0)
    address = "127.0.0.1:#{server.addr[1]}"
    client = TCPSocket.new("127.0.0.1", server.addr[1])
    assert_match(/child": reading from fd #{client.fileno} \(#{address}\) \[/, shown { client.readpartial(1) })
    assert_match(/child": waiting for fd #{client.fileno} \(#{address}\), (?:[12]\d|30)\.\d s left/,
                 shown { client.wait(IO::READABLE | IO::PRIORITY, 30) })
    accepted = server.accept
    assert_match(/child": reading from fd #{server.fileno} \(listening on #{address}\)/, shown { server.accept })
  ensure
    [server, client, accepted].compact.each(&:close)
  end

  def test_a_descriptor_without_a_peer_shows_its_number
    reader, writer = IO.pipe
    assert_match(/reading from fd #{reader.fileno} \[/, shown { reader.gets })
    left, right = UNIXSocket.pair
    assert_match(/reading from fd #{left.fileno} \[/, shown { left.gets })
  ensure
    [reader, writer, left, right].each(&:close)
  end

  def test_queues_tasks_and_threads
    assert_match(/waiting for a queue to be filled/, shown { Thread::Queue.new.pop })
    assert_match(/waiting for room in a queue of 1/, shown { Thread::SizedQueue.new(1).push(1).push(2) })
    assert_match(/waiting for a queue to be filled \[/, shown { Gyre::Queue.new.pop })
    assert_match(/waiting for a place in a semaphore of 1 that task "child" holds \[/, shown { Gyre::Semaphore.new(1).acquire.acquire })
    assert_match(/waiting for work in a thread \[/, shown { Gyre::Offload.call { sleep } })
    assert_match(/waiting for task "other" \[/, shown { |task| task.async("other", transient: true) { sleep }.wait })
    assert_match(/waiting for its children \[0 s old\]\z/, shown { |task| task.async { sleep } })
    sleeper = Thread.new { sleep }
    sleeper.name = "sleeper"
    assert_match(/waiting for thread sleeper \[/, shown { sleeper.join })
  ensure
    sleeper&.kill&.join
  end

  def test_a_condition_variable
    condition = ConditionVariable.new
    Gyre.run do |task|
      task.async("child") { Mutex.new.tap(&:lock).then { |mutex| condition.wait(mutex) } }
      assert_match(/waiting for a condition variable \[/, lines(task).fetch(1))
      condition.signal
    end
  end

  def test_a_child_process
    reader, writer = IO.pipe
    pid = Process.spawn("cat", in: reader, out: File::NULL)
    Gyre.run do |task|
      task.async("child") { Process.wait(pid) }
      assert_match(/waiting for (process #{pid}|work in a thread)\b/, lines(task).fetch(1))
      writer.close
    end
  ensure
    [reader, writer].each(&:close)
  end

  def test_an_enumerator_waits_in_the_name_of_the_task_that_runs_it
    skip "before Ruby 3.2 an Enumerator blocks" if RUBY_VERSION < "3.2"
    assert_match(/child": sleeping, \d+\.\d s left/, shown { Enumerator.new { |yielder| yielder << sleep(30) }.next })
  end

  def test_it_shows_stopping_and_yielding_tasks
    Gyre.run do |task|
      queue = Thread::Queue.new
      child = task.async("child") do
        sleep
      ensure
        queue.pop
      end
      other = task.async("other") { |it| 3.times { it.yield } }
      child.stop
      task.yield
      assert_match(/child": stopping, waiting for a queue to be filled/, lines(task).fetch(1))
      assert_match(/other": ready \[/, lines(task).fetch(2))
      queue.push(nil)
      other.wait
    end
  end

  def test_backtraces_are_the_programs_own_frames
    Gyre.run do |task|
      child = task.async("child") { deeply_asleep }
      shown = lines(task, backtrace: true)
      assert_match(/\A│   file:\d+:in .*lines/, shown[1])
      at = shown.index { |line| line.include?(%(task "child")) }
      assert_match(/\A        file:\d+:in .*(sleep|deeply_asleep)/, shown[at + 1])
      assert(shown[(at + 1)..].any? { |line| line.match?(/deeply_asleep/) })
      assert_empty(shown.grep(%r{lib/gyre/}))
      child.stop
    end
  end

  def test_a_circle_is_named_while_others_go_on
    Gyre.run do |task|
      two = nil
      one = task.async("one") { task.yield && two.wait || two.wait }
      two = task.async("two") { one.wait }
      task.yield
      circle = lines(task).drop_while { |line| !line.include?("deadlock") }
      assert_equal "a deadlock, each of these waits for the next:", circle.shift
      assert_equal [%(  task "one" is waiting for task "two" at), %(  task "two" is waiting for task "one" at)],
                   circle.map { |line| line[/.* at/] }.sort
      one.stop
    end
  end

  private

  def deeply_asleep
    sleep
  end
end
