# frozen_string_literal: true

# How the code is written: RuboCop reads the Ruby files after .rubocop.yml, clang-format the C files
# after .clang-format. Both only report; nothing is rewritten here. test/tidy_test.rb has the checks
# of the project's own.

# How the two are started.
module GyreLint
  # Other versions lay the same C out otherwise.
  CLANG_FORMAT = 14
  C_FILES = "{ext,fuzz,test,bench}/**/*.{c,h}"

  module_function

  # RuboCop has a bundle of its own (test/lint/gems.rb), which is installed the first time.
  def ruby
    bundle("check", out: File::NULL, err: File::NULL) || bundle("install", "--quiet") ||
      abort("lint: RuboCop could not be installed")
    bundle("exec", "rubocop", "--format", "quiet", "--cache-root", "tmp/rubocop")
  end

  # Returns whether it finds nothing; true as well where the right clang-format is missing, which
  # it reports.
  def c
    system("bin/setup", "--with", "clang-format", chdir: GyreBuild.root)
    version = clang_format_version
    return system("clang-format", "--dry-run", "-Werror", *Dir[C_FILES].sort, chdir: GyreBuild.root) if version == CLANG_FORMAT

    puts "lint: C is SKIPPED: it takes clang-format #{CLANG_FORMAT}, #{version ? "this is #{version}" : "which is not installed"}"
    true
  end

  # The layers, the folders of the extension, circles among its files, lengths, headers.
  def tidy
    system(RbConfig.ruby, "-Itest", "test/tidy_test.rb", chdir: GyreBuild.root)
  end

  # Returns the major one; nil where there is no clang-format.
  def clang_format_version
    `clang-format --version`[/version (\d+)/, 1]&.to_i
  rescue Errno::ENOENT
    nil
  end

  # bin/bundle as if this process had not come from another bundle.
  def bundle(*arguments, **options)
    environment = defined?(Bundler) ? Bundler.unbundled_env : ENV.to_h
    system(environment.merge("GYRE_BUNDLE" => "lint"), "bin/bundle", *arguments, unsetenv_others: true, chdir: GyreBuild.root, **options)
  end
end

desc "Read the Ruby files with RuboCop, the C files with clang-format, and what refers to what (test/tidy_test.rb)"
task :lint do
  found_nothing = [GyreLint.ruby, GyreLint.c, GyreLint.tidy]
  abort "lint: something is to be mended" unless found_nothing.all?
  puts "lint: nothing is to be mended"
end
