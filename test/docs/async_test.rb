# frozen_string_literal: true

# The program in docs/async.md prints what the guide shows, and the guide's environment variables
# are the ones that count.

require "test_helper"
require "gyre/loop"
require "support/async_gems"

class DocsAsyncTest < Minitest::Test
  include GyreTest::AsyncGems

  GUIDE = File.read(File.join(ROOT, "docs", "async.md"))

  def test_the_programs_print_what_the_guide_shows
    need_async
    programs = GUIDE.scan(/^```ruby\n(.*?)^```\n\n```text\n(.*?)^```$/m)
    assert_equal [2, 2], [programs.size, GUIDE.scan(/^```ruby$/).size]
    programs.each do |code, expected|
      run = async_ruby("-e", code)
      assert_equal [expected, ""], [run.out, run.err]
    end
  end

  def test_a_backend_can_be_named_in_code
    need_async
    code = GUIDE[/`(Async::Scheduler\.new\(selector: .*?"epoll"\)\))`/, 1].sub("epoll", Gyre::Loop.availables.first)
    run = async_ruby("-e", <<~RUBY)
      require "gyre/async"
      require "async"
      scheduler = #{code}
      print scheduler.run { |task| task.async { sleep(0.01) and 3 }.wait }.wait
      scheduler.close
    RUBY
    assert_equal ["3", ""], [run.out, run.err]
  end
end
