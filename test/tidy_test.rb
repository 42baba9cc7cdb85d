# frozen_string_literal: true

# Checks by reading the files: the direction of the layers, heads, a test for each file, lengths and
# leftover marks. Tables of exceptions are on top, each with its reason.
require "test_helper"
require "support/c_calls"
require "support/covered_by"

class TidyTest < Minitest::Test
  ROOT = File.expand_path("..", __dir__)

  # Which layer a file belongs to: the first pattern that fits. A file may require its own layer and
  # lower ones.
  LAYERS = [
    [1, "loop", %w[lib/gyre/version.rb lib/gyre/errors.rb lib/gyre/native.rb lib/gyre/loop.rb lib/gyre/loop/** lib/gyre/{parts,logger,ractor}.rb]],
    [2, "concurrency", %w[lib/gyre/{scheduler,testing,offload,inspection,profile,run,task,clock,deadline,signals,weak_set,whole_file}.rb
                          lib/gyre/{scheduler,testing,offload,task,sync,inspection,profile}/**]],
    [3, "net", %w[lib/gyre.rb lib/gyre/{core,net,settings,lifetime}.rb lib/gyre/{net,settings,lifetime}/**]],
    [4, "protocols", %w[lib/gyre/{http,log,memcached,dns,websocket,sse,broadcast,rack_upgrade,live,event_machine}.rb
                       lib/gyre/{http,log,memcached,dns,websocket,sse,redis,broadcast,live,event_machine}/**]],
    [5, "clusters", %w[lib/gyre/cluster/**]],
    [6, "servers", %w[lib/gyre/{web,async,rails,capybara,opentelemetry}.rb lib/gyre/{web,async}/** lib/rackup/** lib/rack/** lib/action_cable/**]],
    [7, "commands", %w[lib/gyre/cli.rb lib/gyre/cli/** exe/*]]
  ].freeze

  # What a file may require of a higher layer, and why.
  UPWARD = {
    # `gem "gyre"` in the Gemfile of a Rails application is to be enough, and Bundler requires this.
    "lib/gyre.rb" => ["lib/gyre/rails.rb"],
    # Rails on thin is served by callbacks that share a thread, as it is by `gyre serve`.
    "lib/gyre/event_machine/features/eventmachine.rb" => ["lib/gyre/web/frameworks/isolation.rb"]
  }.freeze

  # Files longer than their kind's limit, and why.
  LONG = {
    "lib/gyre/task.rb" => "one class with one state; more than a third of it is the documentation of its methods"
  }.freeze
  LINES_LIMIT = { "lib" => 450, "ext" => 800 }.freeze

  # C files that also stand without Ruby: in the fuzzers and in plain C programs.
  WITHOUT_RUBY = %w[backend*.c blocked.c parser.c chunked.c statistics.c proxy_protocol.c timers.c lag.c wakeup.c
                    log_{crc32,frame,hub,line,record,session,sink,decoder,syslog,time}.c memcached_wire.c wire.c zone.c respond.c
                    input.c utf8.c].freeze

  # Files of the extension that call each other in a circle, and why.
  CIRCLES = {
    %w[fiber/drive.c fiber/fibers.c fiber/interrupts.c fiber/sight.c fiber/workers.c] =>
      "one machine moves fibers: one file continues what another began"
  }.freeze

  # Marks of unfinished work and of debugging, put together so that this file does not hold them.
  MARKS = /\b(?:#{%w[TO+DO FIX+ME X+XX HA+CK].join("|").delete("+")})\b|binding\.(?:irb|pry)\b|\bbye[b]ug\b/.freeze
  # Where a developer's machine shows through.
  MACHINE_PATHS = %r{(?<![\w.])/(?:#{%w[wo+rk ro+ot ho+me tmp/pl+an].join("|").delete("+")})/}.freeze

  # Names in the papers without a file of the project: Ruby's header, endings, folders made by
  # programs, a user's file.
  ELSEWHERE = %w[ruby.h _test.c _test.rb config/gyre.rb tmp/ vendor/bundle/].freeze

  def test_the_papers_name_files_that_exist
    papers = %w[ARCHITECTURE.md CONTRIBUTING.md README.md]
    ours = Dir["{*,{bench,docs,examples,exe,ext,fuzz,lib,rakelib,test}/**/{*,}}", base: ROOT]
    files = ours.flat_map { |path| ["/#{path}", "/#{path.chomp("/")}/"] }
    stale = papers.flat_map do |paper|
      named = read(paper).scan(%r~(?<![\w/.{*-])((?:[\w.-]+/)*[\w-]+\.(?:rb|c|h|rake)|(?:[\w.-]+/)+)(?![\w*{])~).flatten.uniq
      (named - ELSEWHERE).reject { |name| files.any? { |path| path.end_with?("/#{name}") } }.map { |name| "#{paper}: #{name}" }
    end
    assert_empty stale, "these are not there."
  end

  def test_every_file_belongs_to_a_layer
    homeless = ruby_files.reject { |path| layer(path) }
    assert_empty homeless, "add them to LAYERS in #{__FILE__}"
  end

  def test_a_layer_requires_no_higher_one
    wrong = ruby_files.flat_map do |path|
      (required_files(path) - UPWARD.fetch(path, [])).select { |other| layer(other).to_i > layer(path).to_i }
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
    wrong = files("ext/gyre/**/*.{c,h}").reject { |path| read(path).match?(%r{\A/\*\s*\n?\s*\*? ?\S}) }
    assert_empty wrong, "each opens with what it is, what calls it, what it never does"
  end

  def test_every_file_has_its_test
    untested = files("lib/gyre/**/*.rb").reject { |path| tests_of(path).any? || GyreTest::COVERED_BY.key?(path) }
    assert_empty untested, "write the test, or name in GyreTest::COVERED_BY the one that covers it"
  end

  def test_the_guide_names_the_tests_of_each_folder_of_c_files
    rows = read("CONTRIBUTING.md").scan(%r{^\| `([\w/]+)/` \| (.+) \|$}).to_h
    assert_empty files("ext/gyre/*/**/*.c").map { |path| File.dirname(path).delete_prefix("ext/gyre/") }.uniq - rows.keys
    named = rows.values.flat_map { |tests| tests.scan(%r{`(test/[^`]+)`}) }.flatten
    assert_empty named.reject { |path| Dir[File.join(ROOT, path.sub("<name>", "*"))].any? }
  end

  def test_the_tables_name_only_what_is_there_and_needed
    stale = GyreTest::COVERED_BY.reject { |path, test| exist?(path) && exist?(test) && tests_of(path).empty? }
    assert_empty stale, "stale in GyreTest::COVERED_BY"
    assert_empty LONG.keys.reject { |path| exist?(path) && too_long?(path) }, "stale in LONG"
  end

  def test_every_test_that_a_rake_task_names_is_there
    named = files("rakelib/*.rake", "test/support/parts.rb", ".ci/run").flat_map do |path|
      read(path).scan(%r{\btest/[\w/*{},]+_test\.rb}).flat_map { |pattern| expand_braces(pattern) }
    end
    assert_empty named.reject { |pattern| files(pattern).any? }.uniq
  end

  def test_no_file_is_long_without_a_reason
    long = files("lib/**/*.rb", "ext/**/*.{c,h}").select { |path| too_long?(path) }
    assert_empty long - LONG.keys, "split them, or give the reason in LONG"
  end

  def test_backends_and_parsers_include_no_ruby
    wrong = WITHOUT_RUBY.flat_map { |name| files("ext/gyre/**/#{name}") }.uniq.select do |path|
      included_files(path).any? { |name| name.match?(%r{\Aruby(?:\.h\z|/)}) }
    end
    assert_empty wrong
  end

  def test_every_c_file_includes_feature_before_any_system_header
    wrong = files("ext/gyre/**/*.{c,h}").reject { |path| path.end_with?("/feature.h", "/posix.h") }.reject do |path|
      included = included_files(path)
      included.take_while { |name| name != "feature.h" }.all? { |name| exist?("ext/gyre/#{name}") } && included.include?("feature.h")
    end
    assert_empty wrong, "begin with a header of ours: feature.h makes Linux's functions visible"
  end

  def test_a_c_file_calls_and_includes_no_higher_folder
    assert_empty GyreTest::CCalls.upward
  end

  def test_no_c_files_call_each_other_in_a_circle
    assert_equal CIRCLES.keys, GyreTest::CCalls.circles
  end

  def test_nothing_unfinished_is_left
    assert_empty lines_matching(MARKS, tracked_files)
    assert_empty lines_matching(/^\s*(?:puts|pp?)\b(?!\s*=)/, files("lib/**/*.rb")), "print to a decoder that is given"
    assert_empty lines_matching(/\bprintf\(|fprintf\(stderr/, files("ext/**/*.c"))
  end

  def test_no_trailing_spaces_and_no_tabs_in_ruby
    text = tracked_files.grep(/\.(?:rb|rake|c|h|ru|gemspec|css|html|yml)\z/)
    assert_empty lines_matching(/[ \t]+$/, text)
    assert_empty lines_matching(/\t/, tracked_files.grep(/\.(?:rb|rake|ru|gemspec)\z/))
  end

  def test_prose_in_comments_has_at_most_100_columns
    long = files("{lib,ext,test,bench,fuzz,examples,rakelib}/**/*.{rb,rake,c,h}").flat_map do |path|
      read(path).each_line(chomp: true).with_index(1).filter_map do |line, number|
        "#{path}:#{number}" if line.length > 100 && line.match?(%r{\A\s*(?:#|/?\*) \S})
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

  # Returns each of the patterns that braces put together.
  def expand_braces(pattern)
    braces = pattern.match(/\{([^}]*)\}/) or return [pattern]
    braces[1].split(",").flat_map { |word| expand_braces("#{braces.pre_match}#{word}#{braces.post_match}") }
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
      patterns.any? { |pattern| File.fnmatch?(pattern.sub(/\*\*\z/, "**/*"), path, File::FNM_PATHNAME | File::FNM_EXTGLOB) }
    end
    number
  end

  # The project's files that a Ruby file requires, as paths; what is made at run time (the
  # extension) is left out.
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
      own = File.join("ext/gyre", name)
      included_files(own, seen) if exist?(own)
    end
    seen
  end

  # lib/gyre/log/server/hub.rb is tested by test/log/server/hub_test.rb, or else with its folder: by
  # what is in test/log/server/, by test/log/server_test.rb, or by tests of the next folder around
  # it. Contracts stand in test/contracts/.
  def tests_of(path)
    name = path.delete_prefix("lib/gyre/").delete_prefix("lib/").delete_suffix(".rb")
    files("test/#{name}_test.rb", "test/contracts/#{name}_test.rb", "test/#{name}/*_test.rb")
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
