# frozen_string_literal: true

require "test_helper"
require "tmpdir"

# A run over test files of its own, as bin/test makes it: one that fails, crashes or hangs concerns
# no other.
class RunnerTest < Minitest::Test
  RUN = File.expand_path("run.rb", __dir__)
  SOUND = "def test_sound = pass"

  def test_counts_of_all_files_are_added_up
    output, counts = run_files({ "one" => SOUND, "two" => "#{SOUND}\ndef test_other = skip('no reason')" })
    assert_equal "2 passed, 0 failed, 1 skipped", output.out.lines.last.chomp
    assert_equal "2 0 1\n", counts
    assert_predicate output.status, :success?
    assert_match(/^ +\d+\.\d s \(worked +\d+\.\d s\) +2 tests  .*two_test\.rb$/, output.out)
    assert_includes output.out, "no reason"
  end

  def test_failure_is_shown_and_counted
    output, counts, failures = run_files({ "one" => SOUND, "two" => "def test_wrong = assert_equal(1, 2)" })
    refute_predicate output.status, :success?
    assert_equal "1 1 0\n", counts
    assert_includes failures, "SomeTest#test_wrong"
    assert_includes output.out, "Expected: 1"
  end

  def test_crash_and_broken_file_concern_no_other_file
    output, counts, failures = run_files({
      "crash" => "def test_crash = Process.kill(:SEGV, Process.pid) && sleep",
      "killed" => "def test_killed = Process.kill(:KILL, Process.pid)",
      "ended" => "def test_ended = exit!(0)",
      "broken" => "no_such_method",
      "sound" => SOUND
    })
    assert_equal "1 4 0\n", counts, output.out
    [" in or after SomeTest#test_crash", "killed by SIGKILL in or after SomeTest#test_killed",
     "ended with status 0 in or after SomeTest#test_ended", "broken_test.rb ended with status 1 before its first test"]
      .each { |text| assert_includes failures, text }
    assert_includes output.out, "no_such_method"
  end

  # The first is seen by its own watchdog, the second, in which no thread runs any more, by the
  # process that started it.
  def test_test_that_hangs_is_ended
    output, counts, failures = run_files({
      "hang" => "def test_hang = sleep",
      "stopped" => "def test_stopped = Process.kill(:STOP, Process.pid)"
    }, { "GYRE_TEST_LIMIT_S" => "0.5" })
    assert_equal "0 2 0\n", counts, output.out
    assert_equal 2, failures.lines.grep(/SomeTest#test_(?:hang|stopped)/).grep(/did not end in time/).size, failures
  end

  # The note by which the parent decides that is replaced, never emptied: a reader has the old one
  # or the new one, whole.
  def test_reader_of_a_workers_note_gets_a_whole_one
    output, counts = run_files({ "note" => <<~'RUBY' })
      def test_note
        File.open(GyreTest::Watchdog.note) do |note|
          before = note.read
          GyreTest::Watchdog.watch(self)
          assert_equal [before, true], [note.tap(&:rewind).read, before != File.read(GyreTest::Watchdog.note)]
        end
      end
    RUBY
    assert_equal "1 0 0\n", counts, output.out
  end

  def test_process_left_running_is_ended
    output, = run_files({ "one" => <<~'RUBY' })
      def test_that_leaves_a_grandchild
        reader, writer = IO.pipe
        Process.wait(fork { writer.puts fork { sleep } })
        File.write(ENV.fetch("LEFT"), reader.gets)
        [reader, writer].each(&:close)
      end
    RUBY
    pid = Integer(File.read(@left))
    assert_includes output.out, "left process #{pid} running"
    eventually(what: "the end of the grandchild") { gone?(pid) }
  end

  def test_signals_that_the_parent_ignored_have_their_default_action_again
    output, counts = run_files({ "one" => <<~RUBY }, {}, "sh", "-c", "trap '' INT QUIT HUP PIPE; exec \"$@\"", "sh")
      def test_signals
        %w[INT QUIT HUP].each { |name| assert_equal "DEFAULT", trap(name, "DEFAULT") }
        assert_equal "0000000000000000", `grep SigIgn /proc/self/status`.split.last
        assert_raises(Interrupt) { Process.kill(:INT, Process.pid).then { sleep } }
      end
    RUBY
    assert_equal "1 0 0\n", counts, output.out
  end

  private

  # An orphan that has ended stays until the system's first process asks for it.
  def gone?(pid)
    File.read("/proc/#{pid}/stat").include?(") Z ")
  rescue Errno::ENOENT
    true
  end

  def run_files(files, environment = {}, *before)
    Dir.mktmpdir("gyre-runner-test-") do |folder|
      paths = files.map do |name, body|
        File.join(folder, "#{name}_test.rb").tap do |path|
          File.write(path, "require \"test_helper\"\nclass SomeTest < Minitest::Test\n#{body}\nend\n")
        end
      end
      counts = File.join(folder, "counts")
      @left = File.join(Dir.tmpdir, "gyre-left-#{Process.pid}")
      environment = { "GYRE_TEST_COUNTS" => counts, "LEFT" => @left }.merge(environment)
      output = run_program(environment, *before, RbConfig.ruby, "-w", RUN, *paths)
      [output, File.read(counts), File.exist?("#{counts}.failures") ? File.read("#{counts}.failures") : ""]
    end
  end
end
