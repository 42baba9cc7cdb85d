# frozen_string_literal: true

# IO#fcntl with F_SETLKW, while another process has the lock.
require "test_helper"
require "support/engines"
require "gyre"
require "fcntl"
require "tempfile"

GyreTest::Engines.test_case("RecordLockTest", backends: GyreTest::Engines::ALL) do
  { lock: Fcntl::F_WRLCK, unlock: Fcntl::F_UNLCK }.each do |name, type|
    define_method(name) { [type, 0, 0, 0, 0].pack("s!s!l!l!i!x4") }
    private name
  end

  def test_others_go_on_until_it_is_free
    with_lock_held do |file, release|
      order = []
      Gyre.run do |task|
        task.async { order << file.fcntl(Fcntl::F_SETLKW, lock) }
        3.times { task.yield.then { order << :other } }
        release.call
      end
      assert_equal [:other, :other, :other, 0], order
    end
  end

  def test_a_wait_that_is_given_up_does_not_take_it
    with_lock_held do |file, release|
      assert_raises(Gyre::TimeoutError) { Gyre.run { |task| task.with_timeout(0.01) { file.fcntl(Fcntl::F_SETLKW, lock) } } }
      release.call
      assert_equal "free", ruby("-rfcntl", "-e", <<~RUBY, file.path, lock.unpack1("H*")).out
        File.open(ARGV[0], "r+") { |file| print((file.fcntl(Fcntl::F_SETLK, [ARGV[1]].pack("H*")) == 0) ? "free" : "taken") }
      RUBY
    end
  end

  def test_what_does_not_wait_is_left_to_ruby
    Tempfile.create do |file|
      assert_equal([0, 0], Gyre.run { [file.fcntl(Fcntl::F_SETLKW, lock), file.fcntl(Fcntl::F_SETLKW, unlock)] })
      assert_kind_of Integer, (Gyre.run { file.fcntl(Fcntl::F_GETFL) })
    end
  end

  private

  def with_lock_held
    Tempfile.create do |file|
      program = <<~RUBY
        File.open(ARGV[0], "r+") do |file|
          file.fcntl(Fcntl::F_SETLK, [ARGV[1]].pack("H*"))
          $stdout.puts("locked").then { $stdout.flush }
          $stdin.gets
        end
      RUBY
      IO.popen([RbConfig.ruby, "-rfcntl", "-e", program, file.path, lock.unpack1("H*")], "r+") do |holder|
        assert_equal "locked\n", holder.gets
        yield file, -> { holder.close }
      end
    end
  end
end
