# frozen_string_literal: true

# How many processors a process may use, from control groups that the test makes.

require "test_helper"
require "tmpdir"
require "gyre/cli/serve"

class CLIProcessorsTest < Minitest::Test
  def test_without_control_groups_it_is_what_the_process_is_bound_to
    assert_equal Etc.nprocessors, Gyre::CLI::Processors.available(groups: "#{__dir__}/nonexistent", mine: "/nonexistent")
  end

  def test_the_lowest_quota_on_the_way_to_the_root_counts
    assert_equal 1, available("0::/a/b\n", "cpu.max" => "max 100000\n", "a/cpu.max" => "50000 100000\n", "a/b/cpu.max" => "150000 100000\n")
    assert_equal [2, Etc.nprocessors].min, available("0::/host/path\n", "cpu.max" => "150000 100000\n")
    assert_equal Etc.nprocessors, available("0::/\n", "cpu.max" => "max 100000\n")
  end

  def test_a_quota_that_cannot_be_read_does_not_count
    ["", "100000", "100000 0", "max"].each { |text| assert_equal Etc.nprocessors, available("0::/\n", "cpu.max" => text), text }
  end

  private

  def available(mine, files)
    Dir.mktmpdir do |folder|
      files.each do |name, text|
        FileUtils.mkdir_p(File.dirname(File.join(folder, name)))
        File.write(File.join(folder, name), text)
      end
      File.write(File.join(folder, "mine"), mine)
      Gyre::CLI::Processors.available(groups: folder, mine: File.join(folder, "mine"))
    end
  end
end
