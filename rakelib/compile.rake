# frozen_string_literal: true

# Builds ext/gyre by hand, out of the tree: objects go to tmp/<platform>/<engine>-<version>/, the
# result to lib/gyre/<engine>-<version>/, where lib/gyre/native.rb looks first. So each Ruby has its
# own and none disturbs another. make decides what is out of date; the Makefile itself is remade
# when a source comes or goes.
require "rbconfig"
require "fileutils"
require "rake/clean"

module GyreBuild
  module_function

  # The folder names under tmp/ and lib/gyre/ that distinguish one Ruby's build from another's.
  def ruby_key
    "#{RUBY_ENGINE}-#{RbConfig::CONFIG["ruby_version"]}"
  end

  def root
    File.expand_path("..", __dir__)
  end

  # Builds the extension of the checkout at `root`; returns the path of the shared object, or nil
  # where extconf.rb found that it cannot be built here.
  def compile(root: self.root, environment: {})
    work = File.join(root, "tmp", RUBY_PLATFORM, ruby_key)
    environment = { "GYRE_KQUEUE" => ENV["GYRE_KQUEUE"] }.merge(environment)
    FileUtils.mkdir_p(work)
    alone(work) do
      configure(root, work, environment)
      next unless buildable?(work)

      quietly(environment, work, ENV["MAKE"] || "make", "-j#{jobs}", log: "make.log")
      install(File.join(work, "gyre_ext.#{RbConfig::CONFIG["DLEXT"]}"), File.join(root, "lib", "gyre", ruby_key))
    end
  end

  # Two builds at once in one checkout wait for each other.
  def alone(work)
    File.open(File.join(work, "lock"), File::RDWR | File::CREAT) do |file|
      file.flock(File::LOCK_EX)
      yield
    end
  end

  # Where a compiler finds headers by itself.
  INCLUDED = %w[/usr/include /usr/local/include /opt/homebrew/include /usr/include/*-linux-*].freeze

  # Runs extconf.rb when there is no Makefile, or when what it depends on is not what it was: the
  # sources, and which of the headers that it asks for are there, for a library may have been
  # installed since.
  def configure(root, work, environment)
    sources = Dir[File.join(root, "ext/gyre/**/*.{c,h,rb}")].sort
    extconf = File.join(root, "ext/gyre/extconf.rb")
    reasons = [RUBY_DESCRIPTION, environment.inspect, File.read(extconf), *headers(extconf), *sources].join("\n")
    stamp = File.join(work, "configured-for")
    makefile = File.join(work, "Makefile")
    return if File.exist?(makefile) && File.exist?(stamp) && File.read(stamp) == reasons

    FileUtils.rm_f(Dir[File.join(work, "*.{o,so,bundle}")])
    quietly(environment, work, RbConfig.ruby, extconf, log: "extconf.log")
    File.write(stamp, reasons)
    puts File.readlines(File.join(work, "extconf.log")).grep(/\Agyre: /)
  end

  def headers(extconf, included = INCLUDED)
    File.read(extconf).scan(/have_header\("([^"]+)"\)/).flatten.flat_map { |name| Dir[*included.map { |folder| "#{folder}/#{name}" }] }
  end

  def buildable?(work)
    File.read(File.join(work, "Makefile")).include?("gyre_ext")
  end

  # Copies only what changed, beside the old one and then over it: a process that runs keeps the
  # file it mapped.
  def install(built, folder)
    target = File.join(folder, File.basename(built))
    return target if File.exist?(target) && FileUtils.identical?(built, target)

    FileUtils.mkdir_p(folder)
    FileUtils.cp(built, "#{target}.new")
    File.rename("#{target}.new", target)
    target
  end

  # Output goes to a log; it is shown when the command fails, and a compiler's warnings are shown
  # always.
  def quietly(environment, folder, *command, log:)
    log = File.join(folder, log)
    done = system(environment, *command, chdir: folder, out: log, err: %i[child out])
    text = File.exist?(log) ? File.read(log) : ""
    abort "#{text}\ngyre: #{command.join(" ")} failed in #{folder}" unless done
    puts text.lines.grep_v(/\A(?:compiling|linking) /) if text.include?(": warning: ")
  end

  def jobs
    require "etc"
    Etc.nprocessors
  end
end

CLOBBER.include("tmp/#{RUBY_PLATFORM}", "tmp/asan", "lib/gyre/*/gyre_ext.*", "pkg")

desc "Build the C extension for this Ruby (prints the reason where it cannot be built)"
task(:compile) { GyreBuild.compile }
