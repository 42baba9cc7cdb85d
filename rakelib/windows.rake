# frozen_string_literal: true

# The iocp backend without a Windows: Debian's mingw-w64 compiles the plain C tests of the loop, and
# wine runs them. docs/faq.md names what that cannot show.
require_relative "../test/support/plain_c"

# How the programs are made and run.
module GyreWindows
  COMPILER = "x86_64-w64-mingw32-gcc"
  WINE = "/usr/lib/wine/wine64"
  PROGRAMS = %w[backend_test timers_test deferred_test reports_test].freeze
  # What extconf.rb finds there. 0x0602 is Windows 8, Ruby's oldest.
  FOUND = %w[-D_WIN32_WINNT=0x0602 -DGYRE_HAVE_IOCP].freeze
  LIBRARIES = %w[-static -lpthread -lntdll -lws2_32].freeze
  LIMIT_S = 300

  module_function

  def folder = File.join(GyreBuild.root, "tmp", "windows")

  def able?
    system("bin/setup", "--with", "wine64")
    (system(COMPILER, "--version", out: File::NULL, err: File::NULL) && File.executable?(WINE)) ||
      GyreSuite.skip("mingw-w64 and wine64 are not installed")
  end

  def build(name)
    File.join(folder, "#{name}.exe").tap do |program|
      system(COMPILER, *GyreTest::PlainC::FLAGS, "-O2", *FOUND, "test/c/#{name}.c", *GyreTest::PlainC::PROGRAMS.fetch(name),
        "-o", program, *LIBRARIES) || abort("#{name} cannot be compiled for Windows")
    end
  end

  # Its folder stands for a Windows, which the first program makes.
  def run(program)
    environment = { "WINEPREFIX" => File.join(folder, "wine"), "WINEDEBUG" => "-all" }
    system(environment, "timeout", "--kill-after=5", LIMIT_S.to_s, WINE, program, in: File::NULL) || abort("#{File.basename(program)} failed")
  end
end

namespace :test do
  desc "Run the loop's plain C tests, the iocp backend's among them, twice under Debian's wine; installs it and mingw-w64 the first time"
  task :windows do
    next unless GyreWindows.able?

    mkdir_p GyreWindows.folder, verbose: false
    programs = GyreWindows::PROGRAMS.map { |name| GyreWindows.build(name) }
    2.times { programs.each { |program| GyreWindows.run(program) } }
    GyreSuite.write_counts([programs.size, 0, 0])
  end
end
