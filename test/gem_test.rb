# frozen_string_literal: true

# The gem as a user gets it: built from the gemspec and installed into a folder of its own, once
# with a compiler and once without. Slow (it compiles), so there are few cases.
require "test_helper"
require "fileutils"
require "rubygems"
require "tmpdir"
require "gyre/version"

class GemTest < Minitest::Test
  # How long an installation that compiles may take.
  def self.time_limit_s = 1200

  # To make. extconf.rb's own -O3 is the last word in CFLAGS, so the whole of it is replaced.
  QUICK = "-j2 CFLAGS=-fPIC\\ -std=gnu11\\ -fvisibility=hidden"

  WHO_RUNS = 'require "gyre"; require "gyre/native"; puts Gyre::VERSION, Gyre::Loop.native?, Gyre::Native.load_error.class'

  def test_the_version_is_a_semantic_one_and_in_the_changelog
    assert_match(/\A\d+\.\d+\.\d+\z/, Gyre::VERSION)
    assert_includes File.read("#{ROOT}/CHANGELOG.md"), "## #{Gyre::VERSION} "
  end

  def test_the_gem_needs_no_other_gem
    assert_empty specification.runtime_dependencies
  end

  def test_the_gem_carries_code_and_no_build
    assert_includes specification.files, "lib/gyre.rb"
    assert_includes specification.files, "ext/gyre/feature.h"
    assert_empty specification.files.grep(/\.(?:so|o|bundle)\z|\A(?:test|tmp|vendor)/)
  end

  def test_the_gem_carries_each_file_of_lib_whatever_its_kind
    files = Dir.chdir(ROOT) { Dir["lib/**/*"].select { |path| File.file?(path) } }
    assert_empty files.grep_v(/\.(?:so|bundle)\z/) - specification.files
  end

  def test_an_installed_gem_runs_on_the_native_engine
    skip "this checkout has no extension" unless Dir["#{LIB}/gyre/#{RUBY_ENGINE}-#{ruby_version}/gyre_ext.*"].any?
    with_installed_gem { |environment| assert_equal [Gyre::VERSION, "true", "NilClass"], who_runs(environment) }
  end

  # As `gem "gyre", git: …` has it: Bundler clones, and builds what the clone's gemspec names.
  # Without a compiler, for what one makes of it the installed gem shows.
  def test_from_a_git_repository_bundler_builds_it
    skip "this checkout is no git repository" unless File.exist?("#{ROOT}/.git")
    without_compiler("bundle", "git", "basename", "sed", "uname") do |path|
      Dir.mktmpdir("gyre-git") do |folder|
        environment = { **without_bundle, "PATH" => path, "BUNDLE_PATH" => "#{folder}/gems", "BUNDLE_APP_CONFIG" => "#{folder}/.bundle",
                        "BUNDLE_SILENCE_ROOT_WARNING" => "true", "GYRE_BACKEND" => nil }
        bundle = [environment, RbConfig.ruby, "-S", "bundle"]
        assert run_program(need_program("git"), "clone", "--quiet", "--bare", ROOT, "#{folder}/gyre.git").status.success?
        File.write("#{folder}/Gemfile", %(gem "gyre", git: "file://#{folder}/gyre.git"\n))
        output = run_program(*bundle, "install", within_s: 600, chdir: folder)
        assert output.status.success?, output.out + output.err
        output = run_program(*bundle, "exec", "ruby", "-w", "-e", WHO_RUNS, chdir: folder)
        assert_equal [Gyre::VERSION, "false", "LoadError"], output.out.lines(chomp: true), output.err
        output = run_program(*bundle, "exec", "ruby", "-S", "gyre", "--version", chdir: folder)
        assert_match(/\Agyre #{Gyre::VERSION}\n.*: no, the C extension is missing/m, output.out, output.err)
      end
    end
  end

  def test_without_a_compiler_it_installs_all_the_same_and_runs_on_the_portable_engine_and_its_command_prints_its_version
    without_compiler do |path|
      with_installed_gem("PATH" => path) do |environment, output|
        assert_equal [Gyre::VERSION, "false", "LoadError"], who_runs(environment)
        assert_match(/no working C compiler was found \(.*: apt-get install build-essential ruby-dev\); the portable engine/, output)
        output = run_program(environment, RbConfig.ruby, "#{environment["GEM_HOME"]}/bin/gyre", "--version")
        assert_match(/\Agyre #{Gyre::VERSION}\n.*: no, the C extension is missing: .*install make, a C compiler/m, output.out)
        assert_empty output.err
      end
    end
  end

  # RubyGems runs make whatever an extension reports, so the gem cannot be installed; one line says
  # what is missing.
  def test_without_make_the_installation_names_what_to_install
    Dir.mktmpdir("gyre-path") do |path|
      %w[sh env].each { |name| FileUtils.ln_s(need_program(name), File.join(path, name)) }
      output = ruby("#{ROOT}/ext/gyre/extconf.rb", env: { "PATH" => path, "MAKE" => nil, "make" => nil }, chdir: path)
      refute_predicate output.status, :success?
      assert_match(/\Agyre: make and a C compiler are needed .* apt-get install build-essential ruby-dev\n\z/, output.err)
    end
  end

  private

  def specification
    Gem::Specification.load("#{ROOT}/gyre.gemspec")
  end

  def ruby_version
    RbConfig::CONFIG["ruby_version"]
  end

  # Returns what the installed gem reports about itself, in a Ruby that has no checkout.
  def who_runs(environment)
    output = run_program(environment, RbConfig.ruby, "-w", "-e", WHO_RUNS, chdir: environment["GEM_HOME"])
    assert_empty output.err
    output.out.lines(chomp: true)
  end

  def with_installed_gem(more = {})
    Dir.mktmpdir("gyre-gem") do |folder|
      environment = { **without_bundle, "GEM_HOME" => folder, "GEM_PATH" => folder, "GYRE_BACKEND" => nil,
                      "MAKEFLAGS" => QUICK, **more }
      file = File.join(folder, "gyre.gem")
      gem_command(environment, "build", "gyre.gemspec", "--output", file)
      output = gem_command(environment, "install", "--local", "--no-document", file)
      yield environment, output + Dir["#{folder}/extensions/**/gem_make.out"].map { |path| File.read(path) }.join
    end
  end

  def gem_command(environment, *arguments)
    output = run_program(environment, RbConfig.ruby, "-S", "gem", *arguments, within_s: 600)
    assert output.status.success?, "gem #{arguments.first}:\n#{output.out}\n#{output.err}"
    output.out + output.err
  end

  # A PATH on which Ruby and make are, and no compiler.
  def without_compiler(*programs)
    Dir.mktmpdir("gyre-path") do |folder|
      ["sh", "make", "env", "rm", "mkdir", "cp", "install", "touch", "gem", "ruby", *programs].each do |name|
        FileUtils.ln_s(need_program(name), File.join(folder, name))
      end
      yield folder
    end
  end
end
