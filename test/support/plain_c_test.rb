# frozen_string_literal: true

require "test_helper"
require "fileutils"
require "support/plain_c"
require "tmpdir"

# The folder of plain C programs, which several processes may use at a time.
class PlainCTest < Minitest::Test
  def test_what_is_old_is_deleted_and_what_another_process_takes_away_meanwhile_is_not_an_error
    Dir.mktmpdir("gyre-plain-c-") do |folder|
      old, kept, gone = %w[old kept gone].map { |name| File.join(folder, name) }
      FileUtils.touch([old, kept])
      File.utime(*[Time.now - GyreTest::PlainC::KEPT_S - 60] * 2, old)
      File.symlink("nowhere", gone) # is listed, and has no time
      GyreTest::PlainC.delete_old(folder)
      assert_equal ["kept"], Dir.children(folder) - ["gone"]
    end
  end
end
