# frozen_string_literal: true

require "test_helper"
require "fileutils"
require "rake"
require "tmpdir"

# When `rake compile` asks the platform again what it has (rakelib/compile.rake).
class BuildTest < Minitest::Test
  def setup
    load "#{ROOT}/rakelib/compile.rake" unless defined?(GyreBuild)
  end

  def test_a_header_that_has_come_since_is_a_reason_to_configure_again
    Dir.mktmpdir("gyre-headers-") do |folder|
      extconf = "#{ROOT}/ext/gyre/extconf.rb"
      assert_empty GyreBuild.headers(extconf, [folder])
      FileUtils.touch("#{folder}/liburing.h")
      assert_equal ["#{folder}/liburing.h"], GyreBuild.headers(extconf, [folder])
    end
  end
end
