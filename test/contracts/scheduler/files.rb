# frozen_string_literal: true

# Regular files: reads that have to wait for the disk (their pages are dropped from the cache
# first), writes, and what becomes of either when it is left early.
require "tempfile"
require "tmpdir"
require "gyre/offload"

module SchedulerContract
  # io_read, io_pread, io_write, io_pwrite on files.
  module Files
    # Leaves a read and looks at nothing else.
    class Left < Exception # rubocop:disable Lint/InheritException
    end

    CONTENT = Random.new(4).bytes(300_000).freeze
    BLOCK = 4096

    def test_a_read_that_waits_for_the_disk_does_not_stop_others
      until_a_read_waits do |file|
        order_beside { file.read(10_000) == CONTENT[0, 10_000] } == [:begin, :other, true]
      end
    end

    def test_a_read_at_a_place_does_not_stop_others_either
      since_ruby "3.3" # before, IO#pread has no hook
      until_a_read_waits do |file|
        order = order_beside { file.pread(10_000, 70_000) == CONTENT[70_000, 10_000] }
        assert_equal 0, file.pos
        order == [:begin, :other, true]
      end
    end

    def test_a_file_that_is_not_in_memory_is_read_whole
      with_cold_file do |file|
        assert in_fiber { file.read == CONTENT }
        file.rewind
        assert in_fiber { file.read == CONTENT }, "and again, from memory"
      end
    end

    def test_many_fibers_read_files_at_once
      with_cold_file do |file|
        parts = Array.new(30)
        with_scheduler do |scheduler|
          parts.each_index do |index|
            scheduler.spawn { parts[index] = File.open(file.path, "rb") { |own| own.seek(index * 10_000).then { own.read(10_000) } } }
          end
        end
        assert parts.join == CONTENT
      end
    end

    def test_an_interrupted_read_of_a_file_leaves_nothing
      with_cold_file do |file|
        20.times do
          file.advise(:dontneed)
          in_fiber(reports: []) do |scheduler|
            fiber = scheduler.spawn { file.read(200_000) }
            scheduler.fiber_interrupt(fiber, IOError.new("enough"))
            GC.start
          end
          file.rewind
        end
      end
    end

    def test_a_file_that_is_closed_during_a_read_raises_there
      until_a_read_waits do |file|
        result = waited = nil
        in_fiber do |scheduler|
          scheduler.spawn { result = file.read(10_000) rescue $! }
          waited = result.nil?
          file.close
          eventually { result }
        end
        assert_kind_of waited ? IOError : String, result
        waited
      end
    end

    def test_what_the_kernel_makes_up_or_holds_in_memory_is_read_at_once
      skip "no /proc here" unless File.exist?("/proc/self/stat")
      order = []
      in_fiber do |scheduler|
        scheduler.spawn { (order << :begin).then { order << File.read("/proc/self/stat")[/\A\d+/].to_i } }
        order << :other
      end
      assert_equal [:begin, Process.pid, :other], order
    end

    def test_fibers_read_a_file_at_random_places
      with_file do |path|
        in_fiber do |scheduler|
          8.times do |number|
            scheduler.spawn do
              File.open(path, "rb") do |file|
                random = Random.new(number)
                20.times do
                  from = random.rand(CONTENT.bytesize)
                  assert_equal CONTENT.byteslice(from, 3 * BLOCK).hash, file.pread(3 * BLOCK, from).hash
                end
                assert_raises(EOFError) { file.pread(1, CONTENT.bytesize) }
              end
            end
          end
        end
      end
    end

    def test_a_file_is_read_from_where_it_stands
      with_file do |path|
        in_fiber do
          File.open(path, "rb") do |file|
            file.seek(5)
            assert_equal CONTENT.byteslice(5, 3), file.read(3)
            assert_equal CONTENT.byteslice(8, 100_000).hash, file.read(100_000).hash
            assert_equal 100_008, file.pos
            assert_equal CONTENT.byteslice(100_008..).hash, file.read.hash
            assert_equal ["", nil], [file.read, file.read(1)]
          end
        end
      end
    end

    def test_a_place_before_the_file_is_an_error
      Tempfile.create("gyre-files") do |file|
        in_fiber do
          file.write("text")
          file.flush
          assert_raises(Errno::EINVAL) { file.pread(1, -1) }
          assert_raises(Errno::EINVAL) { file.pwrite("a" * 2 * 1024 * 1024, -1) } # long enough to go another way
        end
        assert_equal 4, file.size
      end
    end

    def test_long_and_synchronous_writes_arrive
      long = CONTENT * 4
      Tempfile.create("gyre-files") do |file|
        file.binmode
        in_fiber do |scheduler|
          assert_equal long.bytesize, file.write(long)
          file.flush
          4.times do |number|
            scheduler.spawn do
              File.open(file.path, File::WRONLY | File::SYNC) { |again| again.pwrite(number.to_s * BLOCK, number * BLOCK) }
            end
          end
          File.open(file.path, File::WRONLY | File::APPEND | File::SYNC) { |again| again.write("the end") }
        end
        assert_equal ["0", "1", "2", "3"].map { |digit| digit * BLOCK }.join.hash, File.binread(file.path, 4 * BLOCK).hash
        assert_equal "#{long.byteslice(4 * BLOCK..)}the end".hash, File.binread(file.path, nil, 4 * BLOCK).hash
      end
    end

    def test_a_disk_without_room_is_an_error
      skip "no /dev/full here" unless File.writable?("/dev/full")
      in_fiber { assert_raises(Errno::ENOSPC) { File.open("/dev/full", "wb") { |file| file.write(CONTENT * 4) } } }
    end

    # The kernel may still be at work when the reader is gone, and what it read into must not be.
    def test_reads_that_are_left_early_disturb_nothing
      with_file do |path|
        assert_program "done\n", <<~RUBY
          require "contracts/scheduler_contract"
          scheduler = Gyre::Scheduler.new(#{backend.inspect})
          Fiber.set_scheduler(scheduler)
          content = File.binread(#{path.inspect})
          File.open(#{path.inspect}, "rb") do |file|
            scheduler.spawn do
              20.times do |round|
                file.advise(:dontneed, 0, 0)
                readers = Array.new(4) do |number|
                  scheduler.spawn { file.pread(3 * 4096, (round + number) * 8192) rescue SchedulerContract::Files::Left } # rubocop:disable Style/RescueModifier
                rescue SchedulerContract::Files::Left
                  nil
                end
                readers.each { |fiber| scheduler.fiber_interrupt(fiber, SchedulerContract::Files::Left.new) if fiber.alive? }
                GC.stress = true
                Array.new(4) { "a" * (3 * 4096) }
                GC.stress = false
                sleep 0.001
                raise "wrong bytes" unless file.pread(100, 5000) == content.byteslice(5000, 100)
              end
            end
            scheduler.run
          end
          puts "done"
        RUBY
      end
    end

    # What was left of it is not touched, whatever does the work.
    def test_a_buffer_that_is_made_smaller_while_it_is_written_ends_the_write
      since_ruby "3.2" # before, there is no hook for writing
      assert_program "done\n", <<~RUBY
        require "contracts/scheduler_contract"
        require "tempfile"
        Warning[:experimental] = false
        scheduler = Gyre::Scheduler.new(#{backend.inspect})
        Fiber.set_scheduler(scheduler)
        Tempfile.create("gyre-files") do |file|
          buffer = IO::Buffer.new(3 * 1024 * 1024).clear(97)
          scheduler.spawn do
            buffer.write(file)
          rescue IOError
            raise unless $!.message == "the buffer was made smaller"
          end
          scheduler.spawn { buffer.resize(4096) }
          scheduler.run
          raise "wrong bytes" unless File.binread(file.path).delete("a").empty?
        end
        puts "done"
      RUBY
    end

    def test_a_fork_while_files_are_read_leaves_both_sides_whole
      with_file do |path|
        in_fiber do |scheduler|
          File.open(path, "rb") do |file|
            read = []
            8.times { |number| scheduler.spawn { read << (file.pread(BLOCK, number * 9 * BLOCK) == CONTENT.byteslice(number * 9 * BLOCK, BLOCK)) } }
            pid = fork do
              exit!(file.pread(BLOCK, 70 * BLOCK) == CONTENT.byteslice(70 * BLOCK, BLOCK) ? 0 : 1)
            end
            assert_predicate Process.wait2(pid).last, :success?
            scheduler.yield until read.size == 8
            assert read.all?
          end
        end
      end
    end

    private

    def with_file
      Tempfile.create("gyre-files") do |file|
        file.binmode
        file.write(CONTENT).then { file.fsync }
        file.advise(:dontneed)
        yield file.path
      end
    end

    # What happens in which order when a fiber reads and another one is ready.
    def order_beside
      steps = []
      with_scheduler do |scheduler|
        scheduler.spawn { (steps << :begin).then { steps << yield } }
        scheduler.spawn { steps << :other }
      end
      assert_includes steps, true, "what was read"
      steps
    end

    # Asked whether a read would wait, the kernel answers yes and fetches what is asked for; where
    # the process loses its processor in between, it is there in the answer's stead. So each attempt
    # has a file of which nothing is in memory, until one waits.
    def until_a_read_waits
      with_cold_file do |cold|
        eventually(what: "a read that waits for the disk and lets others run") do
          File.open(cold.path, "rb") { |file| file.advise(:dontneed).then { yield file } }
        end
      end
    end

    def with_cold_file
      skip "this engine cannot ask whether a read waits" if backend == "select"
      system_type = `stat -f -c %T #{Dir.tmpdir} 2>&1`.chomp
      skip "#{Dir.tmpdir} is not on a disk but on #{system_type}" unless system_type.match?(/ext|xfs|btrfs/)
      Dir.mktmpdir("gyre") do |folder|
        path = File.join(folder, "cold")
        File.open(path, "wb") { |file| file.write(CONTENT).then { file.fsync } }
        File.open(path, "rb") { |file| file.advise(:dontneed).then { yield file } }
      end
    end
  end
end
