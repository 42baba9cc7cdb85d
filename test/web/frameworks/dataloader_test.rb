# frozen_string_literal: true

# GraphQL's dataloader, played as graphql 2.6 has it: Gyre::Web::Dataloader.

require "test_helper"
require "gyre/web/frameworks/dataloader"

class WebDataloaderTest < Minitest::Test
  PROGRAM = <<~'RUBY'
    require "gyre/web"
    module GraphQL
      class Dataloader
        def spawn_fiber(&block) = Fiber.new(blocking: !@nonblocking, &block)

        def run(&source)
          fibers, later = [spawn_fiber(&source)], []
          fibers.shift.tap(&:resume).then { |fiber| later << fiber if fiber.alive? }
          join_queues(fibers, later)
          fibers.each(&:resume)
        end

        private

        def join_queues(former, newer)
          @nonblocking && Fiber.scheduler.run
          former.concat(newer)
          newer.clear
        end
      end
    end
    server = Gyre::Web::Server.new(->(_env) { [200, {}, []] }, bind: "127.0.0.1:0", log: Gyre::Web::ServerLog.new(notices: $stdout, errors: $stdout))
    2.times { server.listen }
    server.close
    Gyre.run do |task|
      steps, queue = [], Thread::Queue.new
      query = task.async { GraphQL::Dataloader.new.run { steps << queue.pop && Fiber.yield && steps << :ends } }
      steps << :other
      queue.push(:loaded)
      query.wait
      p steps
    end
  RUBY

  def test_other_tasks_go_on_while_a_source_waits
    output = ruby("-e", PROGRAM.sub("Fiber.yield &&", "(Fiber.yield; true) &&"))
    assert_empty output.err
    assert_match(/\AGraphQL's dataloader [^\n]*\n\[:other, :loaded, :ends\]\n\z/, output.out)
  end
end
