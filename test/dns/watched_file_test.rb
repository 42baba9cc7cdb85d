# frozen_string_literal: true

require "test_helper"
require "tmpdir"
require "gyre/dns/configuration"
require "gyre/testing"

class DNSWatchedFileTest < Minitest::Test
  def test_a_change_is_seen_within_a_second_and_an_unchanged_file_is_not_read_again
    Dir.mktmpdir do |folder|
      path = File.join(folder, "file")
      reads = []
      file = Gyre::DNS::WatchedFile.new(path) { |text| reads << text; text }
      Gyre::Testing.run do
        assert_equal "", file.value
        File.write(path, "one")
        assert_equal "", file.value, "it looks once a second"
        2.times { assert_equal "one", file_after_a_second(file) }
        assert_equal ["", "one"], reads
        File.delete(path)
        assert_equal "", file_after_a_second(file)
      end
    end
  end

  def test_each_of_the_first_callers_gets_a_value
    Dir.mktmpdir do |folder|
      reads = 0
      file = Gyre::DNS::WatchedFile.new(File.join(folder, "file")) { (reads += 1) == 1 ? file.value : :value }
      assert_equal %i[value value], Array.new(2) { file.value }
    end
  end

  private

  def file_after_a_second(file)
    sleep 1.1
    file.value
  end
end
