# frozen_string_literal: true

# The door `require "gyre/async"`: which selector Async gets, and what is reported where it cannot
# be had.

require "test_helper"
require "fileutils"
require "tmpdir"
require "gyre/loop"
require "support/async_gems"

class AsyncTest < Minitest::Test
  include GyreTest::AsyncGems

  SELECTOR = "Async { selector = Fiber.scheduler.instance_variable_get(:@selector); puts selector.class }"

  def selector(code, **env)
    need_async
    run = async_ruby("-e", "#{code}; #{SELECTOR}", env: env.transform_keys(&:to_s))
    assert_equal "", run.err
    run.out.chomp
  end

  def test_async_gets_our_selector_whichever_is_required_first
    assert_equal "Gyre::Async::Selector", selector('require "gyre/async"; require "async"')
    assert_equal "Gyre::Async::Selector", selector('require "async"; require "gyre/async"')
    assert_match(/\AIO::Event::Selector::/, selector('require "async"'))
  end

  def test_what_the_user_sets_wins
    assert_equal "IO::Event::Selector::Select", selector('require "gyre/async"; require "async"', IO_EVENT_SELECTOR: "Select")
    assert_equal "Gyre::Async::Selector", selector('require "gyre/async"; require "async"', IO_EVENT_SELECTOR: "Gyre")
    assert_equal "IO::Event::Debug::Selector", selector('require "gyre/async"; require "async"', IO_EVENT_DEBUG_SELECTOR: "1")
  end

  def test_every_native_backend_can_be_asked_for
    need_async
    (Gyre::Loop.availables - [Gyre::Loop::PORTABLE]).each do |backend|
      run = async_ruby("-e", <<~RUBY, env: { "GYRE_BACKEND" => backend })
        require "gyre/async"
        require "async"
        Async { puts Fiber.scheduler.instance_variable_get(:@selector).backend }
        puts IO::Event::Selector.new(Fiber.current).then { |selector| [selector.backend, selector.close].first }
      RUBY
      assert_equal [backend * 2, ""], [run.out.delete("\n"), run.err]
    end
  end

  def test_the_portable_backend_is_refused_with_a_remedy
    need_async
    run = async_ruby("-e", 'require "gyre/async"', env: { "GYRE_BACKEND" => "select" })
    assert_match(/needs Gyre's C extension \(GYRE_BACKEND=select rules it out: unset it\), or leave `require "gyre\/async"` out/, run.err)
  end

  def test_a_missing_extension_is_reported_with_a_remedy
    need_async
    Dir.mktmpdir do |folder|
      FileUtils.cp_r(LIB, folder)
      FileUtils.rm_f(Dir["#{folder}/lib/gyre/**/gyre_ext.*"])
      command = async_command("-e", 'require "gyre/async"').map { |part| part == "-I#{LIB}" ? "-I#{folder}/lib" : part }
      run = run_program(*command)
      assert_match(/gyre\/async needs Gyre's C extension \(.*gyre_ext.*: build it with `rake compile`\)/, run.err)
    end
  end

  def test_without_async_it_reports_how_to_get_it
    skip "Async needs Ruby 3.3 anyway" if RUBY_VERSION < "3.3"
    run = ruby("--disable-gems", "-e", 'require "gyre/async"')
    assert_match(/gyre\/async: Async is not installed .*`gem install async`/, run.err)
    refute_predicate run.status, :success?
  end

  def test_on_an_older_ruby_it_reports_what_async_needs
    skip "this Ruby is new enough" if RUBY_VERSION >= "3.3"
    run = ruby("-e", 'require "gyre/async"')
    assert_match(/gyre\/async: Async needs Ruby 3\.3 or newer, this is #{RUBY_VERSION}; Gyre\.run does/, run.err)
    refute_predicate run.status, :success?
  end
end
