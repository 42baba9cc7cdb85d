# frozen_string_literal: true

# Which backend is taken, and what is reported about it. What the backends do is in test/contracts/.
require "test_helper"
require "gyre/scheduler"

class LoopBackendsTest < Minitest::Test
  def test_the_portable_engine_is_always_there_and_last
    assert_equal "select", Gyre::Loop.backends.last
    assert_equal "select", Gyre::Loop.availables.last
  end

  def test_what_is_available_can_be_asked_for_by_string_symbol_and_environment
    Gyre::Scheduler.availables.each do |name|
      assert_equal name, made_by { Gyre::Scheduler.new(name) }
      assert_equal name, made_by { Gyre::Scheduler.new(name.to_sym) }
      assert_equal name, (with_backend(name) { made_by { Gyre::Scheduler.new } })
      assert_equal name, (with_backend(name) { Gyre::Loop.backend })
    end
  end

  def test_uring_is_another_name_of_io_uring
    skip "io_uring does not open here" unless Gyre::Loop.availables.include?("io_uring")
    assert_equal "io_uring", made_by { Gyre::Scheduler.new(:uring) }
    with_backend("uring") do
      assert_equal "io_uring", Gyre::Loop.backend
      assert_equal "io_uring", Gyre::Loop.new.tap(&:close).backend
      assert_match(/^backend: io_uring .*chosen by GYRE_BACKEND$/, Gyre::Loop.explain)
    end
  end

  def test_without_a_name_the_best_one_is_taken
    [nil, ""].each do |nothing|
      with_backend(nothing) do
        assert_equal Gyre::Scheduler.availables.first, Gyre::Loop.backend
        assert_equal Gyre::Scheduler.availables.first, made_by { Gyre::Scheduler.new }
      end
    end
  end

  def test_what_is_asked_for_by_name_is_stronger_than_the_environment
    need_extension
    with_backend(Gyre::Loop.availables.first) { assert_equal "select", made_by { Gyre::Scheduler.new(:select) } }
  end

  def test_an_unknown_name_is_refused_with_the_choices
    need_extension
    error = assert_raises(ArgumentError) { Gyre::Scheduler.new(:warp) }
    assert_equal 'unknown backend "warp": choose one of epoll, io_uring, kqueue, iocp, select', error.message
  end

  def test_a_backend_that_does_not_open_has_a_reason
    Gyre::Loop.backends.product([:new, :backend]) do |name, way|
      next if Gyre::Loop.availables.include?(name)

      error = assert_raises(RuntimeError, SystemCallError) { way == :new ? Gyre::Scheduler.new(name) : Gyre::Loop.backend(name) }
      assert_match(/\bbackend #{name}\b.*: ./, error.message)
    end
  end

  def test_without_the_extension_the_error_for_a_native_one_has_the_remedy
    with_backend("select") do
      error = assert_raises(ArgumentError) { Gyre::Scheduler.new("epoll") }
      assert_match(/"epoll" is not here: without the C extension.*GYRE_BACKEND=select.*rake compile/, error.message)
      assert_equal %w[select], Gyre::Scheduler.availables
    end
  end

  # A process without a descriptor to spare: no backend of the kernel's opens.
  def test_what_the_kernel_refuses_is_an_error_where_it_was_asked_for
    need_extension
    output = without_descriptors("Gyre::Scheduler.new(:epoll)")
    assert_equal ["Errno::EMFILE: Too many open files - backend epoll\n", ""], [output.out, output.err]
  end

  def test_what_the_kernel_refuses_is_passed_over_otherwise_and_the_reason_kept
    need_extension
    output = without_descriptors(<<~RUBY)
      Gyre::Loop::Select.remove_method(:initialize)
      puts Gyre::Scheduler.new.backend
      spare.each(&:close)
      puts Gyre::Loop.explain
    RUBY
    assert_match(/\Aselect\nbackend: epoll /, output.out)
    assert_match(/^passed over when a loop was last made: Too many open files - backend epoll$/, output.out)
  end

  def test_explain_has_what_was_taken_and_what_was_not
    need_extension
    with_backend(nil) do
      taken, *others = Gyre::Loop.explain.lines
      best = Gyre::Loop.availables.first
      assert_match(/\Abackend: #{best} \(native engine, C extension.*\), the best one here\n\z/, taken)
      assert_equal Gyre::Loop.backends - [best], others.map { |line| line[/\Anot taken: (\w+) \(/, 1] }
      assert_equal "not taken: select (portable engine, pure Ruby): not asked for; GYRE_BACKEND=select takes it\n", others.last
    end
  end

  def test_explain_has_the_reason_why_a_backend_is_not_there
    need_extension
    (Gyre::Loop.backends - Gyre::Loop.availables).each do |name|
      line = Gyre::Loop.explain.lines.grep(/\Anot taken: #{name} /).first
      assert_match(/C extension\): (?:not built: .* found|[A-Z])/, line)
      with_backend(name) { assert_match(/\Abackend: none, GYRE_BACKEND=#{name}: .*#{name} cannot be used: ./, Gyre::Loop.explain) }
    end
  end

  def test_explain_of_the_portable_engine
    with_backend("select") do
      taken, other = Gyre::Loop.explain.lines
      assert_equal "backend: select (portable engine, pure Ruby), chosen by GYRE_BACKEND\n", taken
      assert_equal "not taken: the native engine (C extension): GYRE_BACKEND=select rules it out\n", other
    end
  end

  def test_explain_has_the_reason_why_the_extension_is_not_there
    output = ruby("-e", <<~RUBY, env: { "GYRE_BACKEND" => nil })
      require "gyre/loop"
      require "gyre/native"
      def (Gyre::Native).require(_) = raise(LoadError, "no such file")
      puts Gyre::Loop.explain
    RUBY
    assert_match(/\Abackend: select .*, the best one here$/, output.out)
    assert_match(/^not taken: the native engine .*: no such file$/, output.out)
  end

  private

  # Runs code where every descriptor but those in `spare` is taken; an exception's class and message
  # are printed.
  def without_descriptors(code)
    ruby("-e", <<~RUBY, env: { "GYRE_BACKEND" => nil })
      require "gyre/scheduler"
      Process.setrlimit(:NOFILE, 64)
      spare = []
      begin
        loop { spare << File.open(File::NULL) }
      rescue Errno::EMFILE
        nil
      end
      begin
        #{code}
      rescue => error
        spare.each(&:close)
        puts "\#{error.class}: \#{error.message}"
      end
    RUBY
  end

  def made_by
    scheduler = yield
    scheduler.backend
  ensure
    scheduler&.close
  end

  def need_extension
    skip "this checkout has no extension" unless Gyre::Loop.native?
  end

  def with_backend(name)
    before, ENV["GYRE_BACKEND"] = ENV["GYRE_BACKEND"], name
    yield
  ensure
    ENV["GYRE_BACKEND"] = before
  end
end
