# frozen_string_literal: true

# Checks the platform's features and writes gyre_ext's Makefile, for `gem install` and
# `rake compile`. If the extension cannot be built, writes a Makefile that does nothing, and Gyre
# runs on its portable engine. Fails only if make is missing. Environment variables: GYRE_WERROR=1
# turns warnings into errors, GYRE_SANITIZE=address,undefined builds with these sanitizers, and
# GYRE_KQUEUE=1 builds the kqueue backend on Linux, with libkqueue.

def debian(packages) = "on Debian and Ubuntu: apt-get install #{packages}"

def use_portable_engine(reason)
  warn "gyre: #{reason}; the portable engine (pure Ruby) is used, which serves no HTTP"
  targets = %w[all static install install-so install-rb clean distclean realclean]
  File.write("Makefile", "#{targets.join(" ")}:\n\t@:\n.PHONY: #{targets.join(" ")}\n")
  exit
end

make = (ENV["MAKE"] || ENV["make"] || (RUBY_PLATFORM.include?("mswin") ? "nmake" : "make")).split.first.to_s
unless ENV["PATH"].to_s.split(File::PATH_SEPARATOR).any? { |folder| File.executable?(File.expand_path(make, folder)) }
  abort "gyre: make and a C compiler are needed to install this gem; #{debian("build-essential ruby-dev")}"
end
use_portable_engine("#{RUBY_ENGINE} runs no C extension of this kind") unless RUBY_ENGINE == "ruby"
begin
  require "mkmf"
rescue LoadError, SystemExit # mkmf exits if Ruby's headers are missing
  use_portable_engine("Ruby's development files are missing (#{debian("ruby-dev")})")
end
use_portable_engine("no source of the extension is here yet") unless File.exist?(File.join($srcdir, "gyre.c"))
begin
  compiler_works = have_header("ruby.h")
rescue SystemExit, StandardError # mkmf exits or raises if the compiler does not start
  compiler_works = false
end
use_portable_engine("no working C compiler was found (#{debian("build-essential ruby-dev")})") unless compiler_works

# Prints a message, which `gem install` keeps in gem_make.out.
def without(part, library, package)
  warn "gyre: built without #{part}, for #{library} was not found (#{debian(package)})"
end

# Defines GYRE_HAVE_<name> for C if `found`.
def feature(name, found)
  $defs << "-DGYRE_HAVE_#{name}" if found
  found
end

# One backend is enough to build the extension.
backends = []
backends << "epoll" if feature("EPOLL", have_header("sys/epoll.h") && have_func("epoll_create1", "sys/epoll.h"))
found = have_header("liburing.h") && have_library("uring", "io_uring_queue_init_params", "liburing.h") &&
        have_func("io_uring_submit_and_get_events", "liburing.h") # 2.3
backends << "io_uring" if feature("IO_URING", found)
without("the io_uring backend", "liburing 2.3", "liburing-dev") if RUBY_PLATFORM.include?("linux") && !found
# On Linux kqueue is only for tests: an installed gem should not link with libkqueue.
if !RUBY_PLATFORM.include?("linux") || (ENV["GYRE_KQUEUE"] == "1" && pkg_config("libkqueue"))
  $LDFLAGS << " -Wl,-rpath,#{pkg_config("libkqueue", "variable=libdir")}" if RUBY_PLATFORM.include?("linux")
  found = have_header("sys/event.h") && have_func("kqueue", "sys/event.h") && have_const("EV_RECEIPT", "sys/event.h")
  backends << "kqueue" if feature("KQUEUE", found)
end
found = have_header("winternl.h") && have_library("ntdll", "NtDeviceIoControlFile") && have_library("ws2_32", "WSAIoctl") # Windows
backends << "iocp" if feature("IOCP", found)
use_portable_engine("this system has none of epoll, io_uring, kqueue and iocp") if backends.empty?

feature("POLL", have_header("poll.h"))
feature("FORK", have_func("fork", "unistd.h"))
feature("EPOLL_PWAIT2", have_func("epoll_pwait2", "sys/epoll.h")) # glibc 2.35; ENOSYS before Linux 5.11
feature("EVENTFD", have_header("sys/eventfd.h") && have_func("eventfd", "sys/eventfd.h"))
feature("SENDFILE", have_header("sys/sendfile.h") && have_func("sendfile", "sys/sendfile.h"))
feature("INOTIFY", have_header("sys/inotify.h") && have_func("inotify_init1", "sys/inotify.h"))
feature("ACCEPT4", have_func("accept4", "sys/socket.h"))
feature("MMSG", have_func("recvmmsg", "sys/socket.h") && have_func("sendmmsg", "sys/socket.h"))
feature("CMSG", have_macro("CMSG_SPACE", "sys/socket.h"))
feature("MADVISE", have_func("madvise", "sys/mman.h"))
feature("PREADV2_NOWAIT", have_func("preadv2", "sys/uio.h") && have_const("RWF_NOWAIT", "sys/uio.h"))
feature("LINUX_MAGIC", have_header("linux/magic.h") && have_header("sys/vfs.h"))
feature("PIDFD_OPEN", have_header("sys/syscall.h") && have_const("SYS_pidfd_open", "sys/syscall.h")) # ENOSYS before Linux 5.3
feature("OPENAT2", have_header("linux/openat2.h") && have_const("SYS_openat2", "sys/syscall.h")) # ENOSYS before Linux 5.6
feature("STAT_NANOSECONDS", have_struct_member("struct stat", "st_mtim", "sys/stat.h"))
feature("POSTPONED_JOB", have_func("rb_postponed_job_preregister", "ruby/debug.h") && have_func("pthread_atfork", "pthread.h")) # Ruby 3.3
feature("SUBREAPER", have_header("sys/prctl.h") && have_const("PR_SET_CHILD_SUBREAPER", "sys/prctl.h")) # Linux 3.4

found = have_header("openssl/ssl.h") && have_library("crypto", "EVP_PKEY_free") && have_library("ssl", "SSL_read_ex", "openssl/ssl.h") &&
        have_func("SSL_get1_peer_certificate", "openssl/ssl.h") # 3.0
without("TLS", "OpenSSL 3.0", "libssl-dev") unless (tls = feature("LIBSSL", found))

found = have_header("nghttp2/nghttp2.h") && have_library("nghttp2", "nghttp2_session_server_new3", "nghttp2/nghttp2.h") &&
        have_func("nghttp2_session_change_extpri_stream_priority", "nghttp2/nghttp2.h") # 1.50
without("HTTP/2", "libnghttp2 1.50", "libnghttp2-dev") unless (http2 = feature("NGHTTP2", found))
feature("NGHTTP2_RESET_RATE", found && have_func("nghttp2_option_set_stream_reset_rate_limit", "nghttp2/nghttp2.h"))

found = have_header("zlib.h") && have_library("z", "deflate", "zlib.h") && have_func("inflateResetKeep", "zlib.h") # 1.2.5.1
without("compressed WebSockets", "zlib", "zlib1g-dev") unless feature("ZLIB", found)

# The C functions of an optimized Ruby need little stack (fiber/stacks.c).
feature("OPTIMIZED_RUBY", RbConfig::CONFIG["CFLAGS"].to_s.scan(/-O\S*/).last.to_s.match?(/[123s]/))

$CFLAGS << " -std=gnu11 -O3 -fvisibility=hidden -Werror=implicit-function-declaration"
$warnflags = "#{$warnflags} -Wall -Wextra -Wno-unused-parameter"
$CFLAGS << " -Werror" if ENV["GYRE_WERROR"] == "1"
sanitizers = ENV["GYRE_SANITIZE"].to_s
unless sanitizers.empty?
  # Does not check stacks, because Ruby's longjmp leaves the sanitizer's marks there.
  flags = " -fsanitize=#{sanitizers} --param asan-stack=0 -fno-sanitize-recover=all -fno-omit-frame-pointer -g -O1"
  $CFLAGS << flags
  $LDFLAGS << flags
end

if RUBY_PLATFORM.include?("mingw")
  %w[arpa/inet netinet/in netinet/tcp poll sys/ioctl sys/mman sys/socket sys/uio sys/un sys/wait].each do |name|
    FileUtils.mkdir_p(File.dirname("posix/#{name}"))
    File.write("posix/#{name}.h", "#include \"windows/posix.h\"\n")
  end
  $INCFLAGS << " -Iposix"
  $CFLAGS << " -include windows/posix.h -Wno-sign-compare"
end

# Sources include headers by their path from here. Objects are named by path, because file names
# repeat.
$srcs = Dir[File.join($srcdir, "**", "*.c")].sort.map { |path| path.sub($srcdir, "$(srcdir)") }
$srcs.reject! { |path| path.include?("/http/h2/") } unless http2
$srcs.reject! { |path| path.match?(%r{/net/tls(_context|_identity)?\.c\z}) } unless tls
objects = $srcs.to_h { |source| ["#{source.delete_prefix("$(srcdir)/").delete_suffix(".c").tr("/", "-")}.#{$OBJEXT}", source] }
$objs = objects.keys
create_makefile("gyre/gyre_ext")
# mkmf knows only headers in this folder, and has no rules for sources in other folders.
headers = Dir[File.join($srcdir, "**", "*.h")].sort
rules = objects.map { |object, source| "#{object}: #{source}\n\t$(ECHO) compiling #{source}\n\t$(Q) #{COMPILE_C.sub("$<", source)}\n" }
File.write("Makefile", "\n$(OBJS): #{headers.join(" ")}\n\n#{rules.join("\n")}", mode: "a")
