# frozen_string_literal: true

# Checks what can be checked of DESIGN and STYLE by reading the files: the direction of the layers, headers, a test for
# each file, lengths, leftover marks. Every table of exceptions is here, on top, each with its reason.
require "test_helper"

class TidyTest < Minitest::Test
  ROOT = File.expand_path("..", __dir__)

  # Which layer a file belongs to: the first pattern that fits. A file may require its own layer and lower ones.
  LAYERS = [
    [1, "loop", %w[lib/gyre/version.rb lib/gyre/errors.rb lib/gyre/native.rb lib/gyre/loop.rb lib/gyre/loop/**]],
    [2, "concurrency", %w[lib/gyre/scheduler.rb lib/gyre/scheduler/** lib/gyre/testing.rb lib/gyre/testing/** lib/gyre/offload.rb lib/gyre/offload/**
                          lib/gyre/run.rb lib/gyre/task.rb lib/gyre/task/** lib/gyre/barrier.rb lib/gyre/semaphore.rb
                          lib/gyre/queue.rb lib/gyre/limited_queue.rb lib/gyre/condition.rb lib/gyre/waiter.rb
                          lib/gyre/waiters.rb lib/gyre/short_lock.rb lib/gyre/clock.rb lib/gyre/deadline.rb lib/gyre/channel.rb
                          lib/gyre/selection.rb lib/gyre/selection/** lib/gyre/hierarchy.rb lib/gyre/watchdog.rb
                          lib/gyre/watchdog/** lib/gyre/signals.rb lib/gyre/promise.rb lib/gyre/priority_queue.rb]],
    [3, "net", %w[lib/gyre.rb lib/gyre/endpoint.rb lib/gyre/listener.rb lib/gyre/tls.rb lib/gyre/limits.rb lib/gyre/measures.rb]],
    [4, "protocols", %w[lib/gyre/http1.rb lib/gyre/http1/** lib/gyre/log.rb lib/gyre/log/**]],
    [5, "doors", %w[lib/gyre/command_errors.rb lib/gyre/flags.rb lib/gyre/web.rb lib/gyre/web/** lib/gyre/async.rb lib/gyre/async/**
                    lib/gyre/log_command.rb lib/gyre/log_command/** lib/rackup/** lib/rack/** exe/*]]
  ].freeze

  # Files without a test of their own name, and the test that covers them.
  COVERED_BY = {
    "lib/gyre/version.rb" => "test/gem_test.rb",
    "lib/gyre/scheduler/async_guests.rb" => "test/async/guests_test.rb",
    "lib/gyre/selection/cases.rb" => "test/selection_test.rb",
    "lib/gyre/task/context.rb" => "test/task/inheritance_test.rb",
    **%w[portable simulation].to_h { |name| ["lib/gyre/testing/#{name}.rb", "test/testing_test.rb"] },
    # What print_hierarchy is put together from.
    **%w[scheduler/place scheduler/sight scheduler/wait task/sight].to_h { |name| ["lib/gyre/#{name}.rb", "test/task/hierarchy_test.rb"] },
    # Parts of the portable engine: its whole is held to the scheduler's contract.
    **%w[loop/portable scheduler/portable scheduler/portable/buffered_io
         scheduler/portable/callback scheduler/portable/fibers scheduler/portable/waiter scheduler/portable/worker
         scheduler/portable/sight scheduler/fork scheduler/fiber_raise
         scheduler/pooled_fiber].to_h { |name| ["lib/gyre/#{name}.rb", "test/scheduler_test.rb"] },
    "lib/gyre/log_command/daemon.rb" => "test/log_command/serve_test.rb",
    # Parts of the log server: what its clients meet.
    **%w[connection conversation feed handover hub link routing status tail transport]
      .to_h { |name| ["lib/gyre/log/#{name}.rb", "test/log/server_test.rb"] },
    # Parts of the log's client: what its callers and its server see of them.
    "lib/gyre/log/process_hooks.rb" => "test/log/client_process_test.rb",
    **%w[adoption errors sender sender/away sender/ending sender/lifetime sender/serving sender/waiting uplink]
      .to_h { |name| ["lib/gyre/log/#{name}.rb", "test/log/client_outage_test.rb"] },
    **%w[address settings].to_h { |name| ["lib/gyre/log/#{name}.rb", "test/log/client_test.rb"] },
    **%w[spool/folders spool/segment spool/trust].to_h { |name| ["lib/gyre/log/#{name}.rb", "test/log/spool_test.rb"] },
    # Parts of the log's outputs and of what drives them.
    **{ "link" => "socket", "redis_link" => "redis", "trouble" => "file", "writing" => "file" }
      .to_h { |name, test| ["lib/gyre/log/output/#{name}.rb", "test/log/output/#{test}_test.rb"] },
    "lib/gyre/log/output/spill/segment.rb" => "test/log/output/spill_test.rb",
    "lib/gyre/log/output/late.rb" => "test/log/queues_test.rb",
    "lib/gyre/log/output/defaults.rb" => "test/log/output_test.rb",
    "lib/gyre/log/json_stream.rb" => "test/contracts/log_ingest_input_test.rb",
    "lib/gyre/log/committer/lane.rb" => "test/log/committer_test.rb",
    "lib/gyre/command_errors.rb" => "test/flags_test.rb",
    "lib/gyre/offload/job.rb" => "test/offload_test.rb",
    "lib/gyre/scheduler/file_lock.rb" => "test/contracts/scheduler/locks.rb",
    "lib/gyre/scheduler/pacing.rb" => "test/contracts/scheduler/pacing.rb",
    # Parts of the keyed loop: it is held to its contract.
    **%w[closing file_watch keyed_home keyed_watch portable_keyed process_watch signal_watch traps].to_h do |name|
      ["lib/gyre/loop/#{name}.rb", "test/loop_test.rb"]
    end,
    "lib/gyre/log/native_ingest.rb" => "test/contracts/log_ingest_test.rb",
  }.freeze

  # Files longer than their kind's limit, and why.
  LONG = {
    "lib/gyre/web/server.rb" => "the life of one server is one object with one state",
    "lib/gyre/scheduler/portable/fibers.rb" => "how fibers move is one object with one state"
  }.freeze
  LINES_LIMIT = { "lib" => 300, "ext" => 500 }.freeze

  # C files that also stand without Ruby: in the fuzzers and in plain C programs.
  WITHOUT_RUBY = %w[backend*.c blocked.c *_parser.c http1_chunked.c timers.c lag.c wakeup.c
                    log_{batch,channel,crc32,frame,hub,line,record,session,sink,stream,syslog,syslog_frame,time}.c].freeze

  # Marks of unfinished work and of debugging, put together so that this file does not hold them.
  MARKS = /\b(?:#{%w[TO+DO FIX+ME X+XX HA+CK].join("|").delete("+")})\b|binding\.(?:irb|pry)\b|\bbye[b]ug\b/.freeze
  # Where a developer's machine shows through.
  MACHINE_PATHS = %r{(?<![\w.])/(?:#{%w[wo+rk ro+ot ho+me tmp/pl+an].join("|").delete("+")})/}.freeze

  def test_every_file_belongs_to_a_layer
    homeless = ruby_files.reject { |path| layer(path) }
    assert_empty homeless, "add them to LAYERS in #{__FILE__}"
  end

  def test_a_layer_requires_no_higher_one
    wrong = ruby_files.flat_map do |path|
      required_files(path).select { |other| layer(other).to_i > layer(path).to_i }
                          .map { |other| "#{path} (layer #{layer(path)}) requires #{other} (layer #{layer(other)})" }
    end
    assert_empty wrong
  end

  def test_every_required_file_is_there
    missing = ruby_files.flat_map do |path|
      required_files(path).reject { |other| File.exist?(File.join(ROOT, other)) }.map { |other| "#{path}: #{other}" }
    end
    assert_empty missing
  end

  def test_every_ruby_file_opens_with_the_magic_comment_and_a_header
    wrong = ruby_files.reject do |path|
      lines = read(path).lines.drop_while { |line| line.start_with?("#!") }
      lines[0] == "# frozen_string_literal: true\n" && lines[1] == "\n" && lines[2].to_s.match?(/\A# \S/)
    end
    assert_empty wrong, "each opens with what it is, what calls it, what it never does"
  end

  def test_every_c_file_opens_with_a_header
    wrong = files("ext/gyre/*.{c,h}").reject { |path| read(path).match?(%r{\A/\*\s*\n?\s*\*? ?\S}) }
    assert_empty wrong, "each opens with what it is, what calls it, what it never does"
  end

  def test_every_file_has_its_test
    untested = files("lib/gyre/**/*.rb").reject { |path| own_tests(path).any? || COVERED_BY.key?(path) }
    assert_empty untested, "write the test, or name in COVERED_BY the one that covers it"
  end

  def test_the_tables_name_only_what_is_there_and_needed
    stale = COVERED_BY.reject { |path, test| exist?(path) && exist?(test) && own_tests(path).empty? }
    assert_empty stale, "stale in COVERED_BY"
    assert_empty LONG.keys.reject { |path| exist?(path) && too_long?(path) }, "stale in LONG"
  end

  def test_no_file_is_long_without_a_reason
    long = files("lib/**/*.rb", "ext/**/*.{c,h}").select { |path| too_long?(path) }
    assert_empty long - LONG.keys, "split them, or give the reason in LONG"
  end

  def test_backends_and_parsers_include_no_ruby
    wrong = WITHOUT_RUBY.flat_map { |name| files("ext/gyre/#{name}") }.uniq.select do |path|
      included_files(path).any? { |name| name.match?(%r{\Aruby(?:\.h\z|/)}) }
    end
    assert_empty wrong
  end

  def test_nothing_unfinished_is_left
    assert_empty lines_matching(MARKS, tracked_files)
    assert_empty lines_matching(/^\s*(?:puts|pp?)\b(?!\s*=)/, files("lib/**/*.rb")), "print to a stream that is given"
    assert_empty lines_matching(/\bprintf\(|fprintf\(stderr/, files("ext/**/*.c"))
  end

  def test_no_trailing_spaces_and_no_tabs_in_ruby
    text = tracked_files.grep(/\.(?:rb|rake|c|h|ru|gemspec|css|html|yml)\z/)
    assert_empty lines_matching(/[ \t]+$/, text)
    assert_empty lines_matching(/\t/, tracked_files.grep(/\.(?:rb|rake|ru|gemspec)\z/))
  end

  # `rake lint` knows it, too; this is at hand wherever tests run.
  def test_no_line_of_ruby_is_longer_than_rubocop_allows
    limit = Integer(read(".rubocop.yml")[/^Layout\/LineLength:\n  Max: (\d+)/, 1])
    long = (ruby_files + files("test/**/*.rb")).uniq.flat_map do |path|
      read(path).each_line(chomp: true).with_index(1).filter_map do |line, number|
        "#{path}:#{number}" if line.length > limit && line.sub(/ *# rubocop:.*/, "").length > limit
      end
    end
    assert_empty long, "wrap them"
  end

  def test_no_paths_of_a_machine
    assert_empty lines_matching(MACHINE_PATHS, tracked_files)
  end

  def test_every_test_uses_the_helper
    without = files("test/**/*_test.rb").reject { |path| read(path).match?(/^require(?:_relative)? ".*test_helper"$/) }
    assert_empty without, %(start with require "test_helper")
  end

  private

  def files(*patterns)
    Dir.chdir(ROOT) { patterns.flat_map { |pattern| Dir[pattern] }.select { |path| File.file?(path) }.sort }
  end

  # Everything whose requires count.
  def ruby_files
    files("lib/**/*.rb", "exe/*")
  end

  # What is in the repository; in an unpacked archive without one, all but what is built.
  def tracked_files
    @tracked_files ||= begin
      listed = listed_by_git
      found = listed.empty? ? files("{bin,exe,ext,lib,test,fuzz,bench,examples,docs}/**/*", "*") : listed
      found.select { |path| exist?(path) && !read(path).include?("\0") }
    end
  end

  def listed_by_git
    return [] unless File.exist?(File.join(ROOT, ".git"))

    IO.popen(["git", "-C", ROOT, "ls-files", "-z"], err: File::NULL, &:read).split("\0")
  rescue Errno::ENOENT
    [] # git is not installed
  end

  def layer(path)
    number, = LAYERS.find do |_, _, patterns|
      patterns.any? { |pattern| File.fnmatch?(pattern.sub(/\*\*\z/, "**/*"), path, File::FNM_PATHNAME) }
    end
    number
  end

  # The project's files that a Ruby file requires, as paths; what is made at run time (the extension) is left out.
  def required_files(path)
    read(path).scan(/^[^#\n]*?\b(require|require_relative|autoload)\b[ (](?:\s*:\w+,\s*)?["']([^"'#]+)["']/)
              .filter_map do |kind, name|
      if kind == "require_relative"
        File.expand_path(name, "/#{File.dirname(path)}").delete_prefix("/").sub(/(?:\.rb)?\z/, ".rb")
      elsif name.match?(%r{\A(?:gyre\z|gyre/(?!gyre_ext)|rackup/handler/gyre)})
        "lib/#{name}.rb"
      end
    end
  end

  # Every #include of a C file, also through the project's own headers.
  def included_files(path, seen = [])
    read(path).scan(/^\s*#\s*include\s+[<"]([^>"]+)[>"]/).flatten.each do |name|
      next if seen.include?(name)

      seen << name
      own = File.join(File.dirname(path), name)
      included_files(own, seen) if exist?(own)
    end
    seen
  end

  # lib/gyre/web/server.rb is tested by test/web/server_test.rb or test/contracts/web/server_test.rb.
  def own_tests(path)
    name = path.delete_prefix("lib/gyre/").delete_prefix("lib/").delete_suffix(".rb")
    files("test/#{name}_test.rb", "test/contracts/#{name}_test.rb")
  end

  def too_long?(path)
    read(path).count("\n") > LINES_LIMIT.fetch(path[/\A\w+/])
  end

  def lines_matching(pattern, paths)
    (paths - ["test/tidy_test.rb"]).flat_map do |path|
      read(path).each_line.with_index(1).select { |line, _| line.match?(pattern) }
                .map { |line, number| "#{path}:#{number}: #{line.strip[0, 100]}" }
    end
  end

  def exist?(path)
    File.file?(File.join(ROOT, path))
  end

  def read(path)
    (@read ||= {})[path] ||= File.read(File.join(ROOT, path), encoding: "UTF-8").scrub
  end
end
