# frozen_string_literal: true

require "test_helper"
require "minitest/mock"
require "rake"
require "socket"

# When a task of rakelib/test.rake that needs other gems is skipped, and when it fails.
class TasksTest < Minitest::Test
  def setup
    %w[compile test].each { |name| load "#{ROOT}/rakelib/#{name}.rake" } unless defined?(GyreSuite)
  end

  def test_a_task_whose_gems_are_out_of_reach_is_one_skipped_test
    refusing = Addrinfo.tcp("127.0.0.1", 0).bind # and does not listen
    source = "http://127.0.0.1:#{refusing.local_address.ip_port}/"
    skipped = "SKIPPED: the gems of test/some/gems.rb are not installed, and #{source} does not respond\n"
    assert_equal [false, skipped, [0, 0, 1]], without_gems(source)
  ensure
    refusing&.close
  end

  def test_a_task_whose_gems_cannot_be_installed_though_their_source_is_there_fails
    GyreSuite.stub(:responds?, true) do
      assert_equal [:failed, "", nil], without_gems("http://127.0.0.1/")
    end
  end

  private

  # Returns what the task learns, what it prints, and what it counts.
  def without_gems(source)
    learnt = counts = nil
    out, = capture do
      Gem.stub(:sources, Gem::SourceList.from([source])) do
        GyreSuite.stub(:write_counts, ->(given) { counts = given }) do
          GyreSuite.stub(:bundle, false) { learnt = GyreSuite.bundle_or_skip("some") }
        end
      end
    rescue SystemExit => error
      learnt = :failed unless error.success?
    end
    [learnt, out, counts]
  end
end
