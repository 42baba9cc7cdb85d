# frozen_string_literal: true

# What `gyre --version` prints of the build: a line for each library, and the package of one that is
# missing. (Gyre::CLI::Build.)

require "test_helper"
require "gyre/cli/build"

class CLIBuildTest < Minitest::Test
  def test_only_backends_that_open_here_are_named
    assert_includes Gyre::CLI::Build.text, "  backends: #{Gyre::Loop.availables.join(", ")}\n"
    skip "this build has kqueue" if Gyre::Loop.built?("kqueue")
    refute_match(/kqueue/, Gyre::CLI::Build.text)
  end

  def test_each_library_has_a_line_and_a_missing_one_its_package
    skip "this checkout has no extension" unless Gyre::Loop.native?
    assert_match(/^  TLS: (yes$|no, built without OpenSSL 3\.0 \(on Debian: apt-get install libssl-dev, )/, Gyre::CLI::Build.text)
    without_http2 = ruby("-e", <<~RUBY)
      require "gyre/cli/build"
      Gyre::HTTP::H2.singleton_class.prepend(Module.new { def available? = false })
      puts Gyre::CLI::Build.text
    RUBY
    assert_match(/^  HTTP\/2: no, built without libnghttp2 1\.50 \(on Debian: apt-get install libnghttp2-dev, /, without_http2.out)
  end

  # A user reads it in gem_make.out or mkmf.log; here all is found but the headers of these.
  def test_each_library_that_is_missing_is_named_at_build_time_with_its_package
    Dir.mktmpdir("gyre-extconf") do |folder|
      File.write("#{folder}/without.rb", <<~'RUBY')
        require "mkmf"
        def have_header(name, *) = !%w[liburing.h openssl/ssl.h nghttp2/nghttp2.h zlib.h].include?(name)
        %i[have_func have_library have_const have_struct_member].each { |name| define_method(name) { |*| true } }
      RUBY
      output = ruby("-r", "#{folder}/without.rb", "#{ROOT}/ext/gyre/extconf.rb", chdir: folder)
      %w[liburing-dev libssl-dev libnghttp2-dev zlib1g-dev].each do |package|
        next if package == "liburing-dev" && !RUBY_PLATFORM.include?("linux")

        assert_match(/^gyre: built without .*, for .* was not found \(on Debian and Ubuntu: apt-get install #{package}\)$/, output.err)
      end
    end
  end
end
