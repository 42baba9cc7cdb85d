# frozen_string_literal: true

# Gets CRuby's tests of fibers, for the Ruby that runs: test/fiber and tool/lib of its source, which
# is looked for beside the Ruby's own folder and else fetched as a Debian source package, by apt
# from the mirror that this machine's apt uses. Called by rakelib/conformance.rake. What was fetched
# is kept in tmp/conformance.
require "fileutils"
require "rbconfig"
require "tmpdir"

module GyreConformance
  # One Ruby's source, as far as the tests need it.
  class Source
    # Parts of the source, each with what else may lie in it left alone.
    PARTS = %w[test/fiber tool/lib].freeze
    KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
    # Debian's suites, the stable ones first; an apt list of each is fetched only when the one
    # before had not this version.
    SUITES = %w[bookworm trixie sid experimental].freeze

    # Returns why there is none.
    attr_reader :problem

    def initialize(folder)
      @folder = File.join(folder, "ruby-#{RUBY_VERSION}")
    end

    # Returns the folder with test/fiber and tool/lib; nil where it cannot be had.
    def path
      return @folder if complete?(@folder)

      @problem = fetch unless copy
      @folder if complete?(@folder)
    end

    private

    def complete?(folder)
      File.exist?(File.join(folder, "test/fiber/scheduler.rb")) && File.exist?(File.join(folder, "tool/lib/test/unit.rb"))
    end

    # A Ruby that was built by hand may have its source near: <prefix>/../src/ruby-<version>.
    def copy
      near = File.expand_path("../src/ruby-#{RUBY_VERSION}", RbConfig::CONFIG["prefix"])
      complete?(near) && PARTS.each { |part| keep(File.join(near, part), part) }
    end

    def keep(from, part)
      target = File.join(@folder, part)
      FileUtils.mkdir_p(File.dirname(target))
      FileUtils.rm_rf(target)
      FileUtils.cp_r(from, target)
    end

    def fetch
      missing = %w[apt-get apt-cache tar xz].reject { |tool| system("command -v #{tool} >/dev/null") }
      return "#{missing.join(" and ")} is not there to fetch it" unless missing.empty?
      return "apt on this machine has no source of Debian's packages" unless mirror

      Dir.mktmpdir("gyre-ruby-source") do |work|
        SUITES.each do |suite|
          archive = download(work, suite) or next
          return unpack(work, archive)
        end
      end
      "no Debian suite of #{SUITES.join(", ")} has its source package, or the network is not there"
    end

    # Returns the path of the archive.
    def download(work, suite)
      FileUtils.mkdir_p(%w[lists/partial cache].map { |folder| File.join(work, suite, folder) })
      list = File.join(work, suite, "source.list")
      signed = "[signed-by=#{KEYRING}] " if File.exist?(KEYRING)
      File.write(list, "deb-src #{signed}#{mirror} #{suite} main\n")
      options = ["Dir::Etc::sourcelist=#{list}", "Dir::Etc::sourceparts=-", "Dir::State::lists=#{work}/#{suite}/lists",
                 "Dir::Cache=#{work}/#{suite}/cache", "APT::Sandbox::User=root"].flat_map { |option| ["-o", option] }
      quiet(work, "apt-get", *options, "update", "-qq") or return
      version = versions(options).find { |each| each[/\A(?:\d+:)?([\d.]+)/, 1] == RUBY_VERSION } or return
      quiet(work, "apt-get", *options, "source", "--download-only", "-qq", "#{package}=#{version}")
      Dir[File.join(work, "*.orig.tar.*")].reject { |path| path.end_with?(".asc") }.first
    end

    # Returns where this machine's apt gets Debian's main archive.
    def mirror
      command = ["apt-get", "indextargets", "--format", "$(LABEL) $(REPO_URI)", "Created-By: Packages"]
      @mirror ||= IO.popen(command, err: File::NULL, &:read)[/^Debian (\S+)$/, 1]
    end

    def package
      "ruby#{RUBY_VERSION[/\A\d+\.\d+/]}"
    end

    def versions(options)
      IO.popen(["apt-cache", *options, "showsrc", package], err: File::NULL, &:read).scan(/^Version: (\S+)/).flatten
    end

    # Only the parts, and without the archive's own top folder.
    def unpack(work, archive)
      patterns = PARTS.map { |part| "*/#{part}" }
      unpacked = quiet(work, "tar", "-xf", archive, "--wildcards", *patterns, "--strip-components=1")
      return "#{File.basename(archive)} could not be unpacked" unless unpacked

      PARTS.each { |part| keep(File.join(work, part), part) }
      nil
    end

    def quiet(folder, *command)
      system(*command, chdir: folder, in: File::NULL, out: File::NULL, err: File::NULL)
    end
  end
end
