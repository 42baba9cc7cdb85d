# frozen_string_literal: true

# Gets EventMachine, as a gem and as its master branch: its tests, and its library where a compiler
# makes it, each in a folder of tmp/conformance. Called by rakelib/conformance_eventmachine.rake.
require "rbconfig"

module GyreConformance
  GET_LIMIT_S = 300 # for a command that fetches or compiles

  # Runs a command in a folder, quietly. Returns whether it succeeded; says so if it did not.
  def self.get(environment, *command, chdir:)
    system(GyreSuite.unbundled.merge(environment), "timeout", "--kill-after=5", GET_LIMIT_S.to_s, *command,
      chdir: chdir, in: File::NULL, out: File::NULL, err: File::NULL).tap do |done|
      why = $?.exitstatus == 124 ? "took longer than #{GET_LIMIT_S} s" : "failed"
      warn "#{command.map { |word| File.basename(word) }.first(3).join(" ")} #{why}" unless done
    end
  end

  # The release, for the Ruby that runs.
  class EventMachineSource
    VERSION = "1.2.7"
    FILE = "eventmachine-#{VERSION}.gem"
    FETCH = <<~'RUBY'
      bytes = Gem::RemoteFetcher.fetcher.fetch_path("#{Gem.sources.first.uri.to_s.chomp("/")}/gems/#{ARGV.first}")
      File.binwrite(ARGV.first, bytes)
    RUBY
    private_constant :FILE, :FETCH

    # Where the tests find further gems, if they need any.
    attr_reader :gems

    def initialize(folder)
      @folder = File.join(folder, "eventmachine-#{RbConfig::CONFIG["ruby_version"]}")
    end

    def name = VERSION

    def exceptions = EVENTMACHINE_EXCEPTIONS

    # Returns the folder of the tests; nil where the gem cannot be had.
    def tests
      path = File.join(@folder, "source", "eventmachine-#{VERSION}", "tests")
      path if Dir.exist?(path) || (fetched? && gem("unpack", "--target", "source") && Dir.exist?(path))
    end

    # Returns the load path of the original; nil where it cannot be compiled.
    def original
      @original ||= [found, fetched? && gem("install", "--local", "--no-document", "--ignore-dependencies", "--install-dir", "gems") && found]
                    .find { |paths| paths&.any? }
    end

    private

    def found
      library = Dir[File.join(@folder, "gems/gems/*/lib")]
      library + Dir[File.join(@folder, "gems/extensions/*/*/*/")] if library.any?
    end

    def gem(command, *options) = GyreConformance.get({}, File.join(RbConfig::CONFIG["bindir"], "gem"), command, FILE, *options, chdir: @folder)

    # Fetches the file alone: `gem fetch` reads the index of all gems, which takes minutes on a busy
    # machine.
    def fetched?
      FileUtils.mkdir_p(@folder)
      File.exist?(File.join(@folder, FILE)) || GyreConformance.get({}, RbConfig.ruby, "-rrubygems/remote_fetcher", "-e", FETCH, FILE, chdir: @folder)
    end
  end

  # A clone of the newest state: of one in GYRE_EVENT_MACHINE_SOURCES, or by git.
  class EventMachineMaster
    REPOSITORY = "https://github.com/eventmachine/eventmachine"

    def initialize(folder)
      @folder = File.join(folder, "eventmachine-master-#{RbConfig::CONFIG["ruby_version"]}")
    end

    def name = "master"

    def exceptions = EVENTMACHINE_MASTER_EXCEPTIONS

    # Has net-smtp, which no longer comes with Ruby.
    def gems = File.join(@folder, "gems")

    # Returns the folder of the tests, with certificates; nil where it cannot be cloned.
    def tests
      return unless cloned? || run("git", "clone", "--quiet", "--depth", "1", origin, @folder, chdir: ".")

      run(ruby("gem"), "install", "--no-document", "--install-dir", gems, "net-smtp") unless Dir.exist?(gems)
      File.join(@folder, "tests") if run(ruby("rake"), "-f", "rakelib/test.rake", "-R", "ext", "test:fixtures")
    end

    # Returns the load path of the original; nil where it cannot be compiled.
    def original
      made = %w[ext ext/fastfilereader].all? do |part|
        chdir = File.join(@folder, part)
        Dir[File.join(chdir, "*.so")].any? || (run(RbConfig.ruby, "extconf.rb", chdir: chdir) && run("make", chdir: chdir))
      end
      %w[lib ext ext/fastfilereader].map { |part| File.join(@folder, part) } if made
    end

    private

    def cloned? = Dir.exist?(File.join(@folder, "tests"))

    def origin = ENV["GYRE_EVENT_MACHINE_SOURCES"] ? File.join(ENV["GYRE_EVENT_MACHINE_SOURCES"], "eventmachine") : REPOSITORY

    def ruby(program) = File.join(RbConfig::CONFIG["bindir"], program)

    def run(*command, chdir: @folder) = GyreConformance.get({ "GIT_TERMINAL_PROMPT" => "0" }, *command, chdir: chdir)
  end
end
