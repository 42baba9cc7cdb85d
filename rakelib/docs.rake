# frozen_string_literal: true

# The public classes and methods as HTML, by YARD after .yardopts, which names the files that belong
# to the interface. What else in the guides is written by a program.

desc "Write the public interface to tmp/yard; something public that is undocumented fails (YARD is installed the first time)"
task :docs do
  bundle = lambda do |*words, **options|
    environment = defined?(Bundler) ? Bundler.unbundled_env : ENV.to_h
    command = [environment.merge("GYRE_BUNDLE" => "docs"), "bin/bundle", *words]
    IO.popen(command, unsetenv_others: true, chdir: GyreBuild.root, err: %i[child out], **options, &:read)
  end
  bundle["install", "--quiet"] unless bundle["check"].include?("satisfied")
  printed = bundle["exec", "yard", "doc", "--no-cache", "--no-save"]
  puts printed
  next if printed.match?(/^ *100\.00% documented/)

  puts bundle["exec", "yard", "stats", "--no-cache", "--no-save", "--list-undoc"]
  abort "docs: something public is undocumented"
end

desc "Write docs/configuration.md from the tables of settings"
task "docs:configuration" => :compile do
  $LOAD_PATH.unshift(File.join(GyreBuild.root, "lib"))
  require_relative "../test/support/configuration_guide"
  File.write(GyreTest::ConfigurationGuide::PATH, GyreTest::ConfigurationGuide.text)
end

desc "Write the table of metrics in docs/observe.md from the rows of figures"
task "docs:metrics" do
  $LOAD_PATH.unshift(File.join(GyreBuild.root, "lib"))
  require_relative "../test/support/figures_guide"
  guide = GyreTest::FiguresGuide
  File.write(guide::PATH, guide.filled(File.read(guide::PATH)))
end

desc "Write from bench/results: the figures of README and the guides, README's picture, the comparison of Rubies"
task "docs:figures" do
  require_relative "../bench/support/bars"
  require_relative "../bench/support/figures"
  require_relative "../bench/support/rubies"
  Bench::Figures.files.each do |path|
    text = File.read(path)
    filled = Bench::Figures.new(text).filled
    File.write(path, filled) if filled != text
  end
  Bench::Bars.write
  Bench::Rubies.write
end
