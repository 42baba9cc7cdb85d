# frozen_string_literal: true

# The extension without a Windows: Debian's mingw-w64 compiles the plain C tests of the loop, which
# wine runs, and the C files of the first three layers against the headers of Ruby's source.
# docs/faq.md names what that cannot show.
require_relative "../test/support/plain_c"

# How the programs are made and run.
module GyreWindows
  extend FileUtils
  COMPILER = "x86_64-w64-mingw32-gcc"
  WINE = "/usr/lib/wine/wine64"
  PROGRAMS = %w[backend_test timers_test deferred_test reports_test].freeze
  # What extconf.rb finds there. 0x0602 is Windows 8, Ruby's oldest.
  FOUND = %w[-D_WIN32_WINNT=0x0602 -DGYRE_HAVE_IOCP].freeze
  LIBRARIES = %w[-static -lpthread -lntdll -lws2_32].freeze
  LIMIT_S = 300
  SOURCE = "../shared/sources/ruby-4.0.5.tar.xz"
  LAYERS = "ext/gyre/{gyre.c,{loop,fiber,keyed,async,net}/*.c}"
  CHECKED = %w[-std=gnu11 -fsyntax-only -Wall -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers -D_UCRT
               -DGYRE_HAVE_LIBSSL -Iext/gyre
               -include ext/gyre/windows/posix.h].freeze

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

  # Ruby's headers, as its own configure makes them for mingw-w64, and OpenSSL's of this machine,
  # whose declarations are the same. A minute, the first time.
  def headers
    ruby, built = %w[ruby-4.0.5 ruby-mingw].map { |name| File.join(folder, name) }
    if Dir["#{built}/.ext/include/*/ruby/config.h"].empty?
      system("tar", "xf", File.expand_path(SOURCE, GyreBuild.root), "-C", folder) || abort
      mkdir_p built
      system("cd #{ruby} && ./autogen.sh && cd #{built} && #{ruby}/configure --host=x86_64-w64-mingw32 --with-baseruby=#{RbConfig.ruby} " \
             "--disable-install-doc", out: "#{built}/log", err: %i[child out]) || abort("Ruby's configure failed, see #{built}/log")
      mkdir_p "#{built}/openssl"
      cp Dir["/usr/include/openssl/*.h", "/usr/include/*-linux-*/openssl/*.h"], "#{built}/openssl"
    end
    ["-I#{Dir["#{built}/.ext/include/*"].first}", "-I#{ruby}/include", "-I#{built}"]
  end

  # In place of the headers that Windows lacks; as extconf.rb makes them there.
  def missing
    File.read("ext/gyre/extconf.rb")[/^  %w\[(arpa.*?)\]/, 1].split.each do |name|
      mkdir_p File.dirname("#{folder}/posix/#{name}")
      File.write("#{folder}/posix/#{name}.h", "")
    end
    "-I#{folder}/posix"
  end

  def check_layers
    return puts("the layers are not compiled: #{SOURCE} is not there") unless File.exist?(SOURCE)

    flags = [*CHECKED, *FOUND, *headers, missing]
    files = Dir[LAYERS].sort
    failed = files.reject { |file| system(COMPILER, *flags, file) }
    abort "not for Windows: #{failed.join(", ")}" unless failed.empty?
    puts "#{files.size} files of the first three layers compile for Windows"
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
    GyreWindows.check_layers
    GyreSuite.write_counts([programs.size, 0, 0])
  end
end
