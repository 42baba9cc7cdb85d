/* Gyre::HTTP::OpenFile: opens a regular file below a folder. Files::Root checks the name, which a
 * client has sent. The kernel resolves the name in one step, so that no folder can become a
 * symbolic link meanwhile. Waits for a disk only if `wait` is set (in Gyre::Offload, without GVL).
 *
 * Where openat2(2) is missing (before Linux 5.6, or filtered), opens one folder after the other and
 * follows no symbolic link, unless `follow` is set. */
#include "fiber/nonblocking_io.h"
#include "gyre.h"

#include <fcntl.h>
#include <ruby/io.h>
#include <ruby/thread.h>
#include <sys/stat.h>
#ifdef GYRE_HAVE_OPENAT2
#include <linux/openat2.h>
#include <sys/syscall.h>
#endif

#define READ_BYTES_LIMIT (1 << 20)
#define PROBE_BYTES (64 * 1024) /* half of Linux' read-ahead */
#define ATTEMPTS 16             /* maximum tries while other programs rename folders */

#ifdef O_PATH
#define FOLDER_FLAGS (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#else
#define FOLDER_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#endif
/* O_NONBLOCK: opening a FIFO does not wait. O_NOCTTY: no terminal becomes the controlling one. */
#define FILE_FLAGS (O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)

struct open_file {
  int fd;   /* -1 after the close */
  VALUE io; /* or 0 */
  int64_t size, modified_ns;
};

static VALUE open_file_class;

/* True for errors that count as a missing file. */
static bool is_absent(int error) {
  static const int errors[] = {ENOENT,       ENOTDIR, ELOOP,  EXDEV,  EACCES,   EPERM,
                               ENAMETOOLONG, ENXIO,   ENODEV, EISDIR, EOVERFLOW};
  for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
    if (errors[i] == error) return true;
  }
  return false;
}

/* `path` is relative, without "." and "..". */
static int open_by_steps(int folder, const char *path, bool follow) {
  if (follow) {
    int fd = openat(folder, path, FILE_FLAGS);
    return fd < 0 ? -errno : fd;
  }
  char name[256];
  int at = folder, result;
  for (;;) {
    size_t length = strcspn(path, "/");
    if (length == 0 || length >= sizeof(name)) {
      result = -ENAMETOOLONG;
      break;
    }
    memcpy(name, path, length);
    name[length] = '\0';
    bool last = path[length] == '\0';
    int fd = openat(at, name, last ? FILE_FLAGS | O_NOFOLLOW : FOLDER_FLAGS);
    result = fd < 0 ? -errno : fd;
    if (fd < 0 || last) break;
    if (at != folder) close(at);
    at = fd;
    path += length + 1;
  }
  if (at != folder) close(at);
  return result;
}

#ifdef GYRE_HAVE_OPENAT2
static long call_openat2(int folder, const char *path, uint64_t flags, uint64_t resolve) {
  struct open_how how = {.flags = flags, .resolve = resolve};
  return syscall(SYS_openat2, folder, path, &how, sizeof(how));
}

/* True if openat2 itself fails with EPERM, as in containers. Otherwise the EPERM is the file's. */
static bool openat2_is_refused(void) {
  long fd = call_openat2(AT_FDCWD, ".", O_PATH | O_CLOEXEC, 0);
  if (fd >= 0) close((int)fd);
  return fd < 0 && errno == EPERM;
}
#endif

/* Returns a descriptor or -errno. -EAGAIN: the answer needs the disk, but `wait` is false. */
static int open_beneath(int folder, const char *path, bool follow, bool wait) {
#ifdef GYRE_HAVE_OPENAT2
  static bool missing, no_cached; /* set once by any thread, always to the same value */
  for (int attempt = 0; !missing; attempt++) {
    uint64_t resolve = RESOLVE_NO_MAGICLINKS | (follow ? 0 : RESOLVE_BENEATH);
    bool cached = false;
#ifdef RESOLVE_CACHED
    cached = !wait && !no_cached;
    if (cached) resolve |= RESOLVE_CACHED;
#endif
    long fd = call_openat2(folder, path, FILE_FLAGS, resolve);
    if (fd >= 0) return (int)fd;
    int error = errno;
    if (error == EINVAL && cached) {
      no_cached = true; /* before Linux 5.12 */
    } else if (error == ENOSYS || (error == EPERM && openat2_is_refused())) {
      missing = true;
    } else if ((error != EINTR && (error != EAGAIN || cached)) || attempt > ATTEMPTS) {
      return -error;
    }
  }
#endif
  return open_by_steps(folder, path, follow);
}

struct opening {
  int folder, result;
  const char *path;
  bool follow, wait;
  struct stat status;
};

static void *open_without_gvl(void *opaque) {
  struct opening *opening = opaque;
  opening->result = open_beneath(opening->folder, opening->path, opening->follow, opening->wait);
  if (opening->result < 0) return NULL;
  int error = 0;
  if (fstat(opening->result, &opening->status) < 0) error = -errno;
  if (!error && !S_ISREG(opening->status.st_mode)) error = -ENXIO;
  if (error) {
    close(opening->result);
    opening->result = error;
  }
  return NULL;
}

static void open_file_mark(void *opaque) { rb_gc_mark(((struct open_file *)opaque)->io); }

static void open_file_free(void *opaque) {
  struct open_file *file = opaque;
  if (file->fd >= 0 && !file->io) close(file->fd);
  xfree(file);
}

GYRE_TYPE(open_file_type, "Gyre::HTTP::OpenFile", open_file_mark, open_file_free, NULL, RUBY_TYPED_FREE_IMMEDIATELY);

static struct open_file *get(VALUE self) { return rb_check_typeddata(self, &open_file_type); }

static struct open_file *get_open(VALUE self) {
  struct open_file *file = get(self);
  if (file->fd < 0) rb_raise(rb_eIOError, "closed file");
  /* Raises if the app has closed the IO: its number may now belong to another file. */
  if (file->io) (void)rb_io_descriptor(file->io);
  return file;
}

static void take_status(struct open_file *file, const struct stat *status) {
  file->size = (int64_t)status->st_size;
#ifdef GYRE_HAVE_STAT_NANOSECONDS
  file->modified_ns = (int64_t)status->st_mtim.tv_sec * 1000000000 + status->st_mtim.tv_nsec;
#else
  file->modified_ns = (int64_t)status->st_mtime * 1000000000;
#endif
}

/* call-seq: OpenFile.beneath(folder, path, follow, wait) -> OpenFile, nil or false
 *
 * `path` is relative to `folder`, an open IO. Returns nil if it is not a regular file, or if a
 * symbolic link leads out of the folder and `follow` is false. Returns false if the answer needs
 * the disk, but `wait` is false. */
static VALUE open_file_beneath(VALUE class, VALUE folder, VALUE path, VALUE follow, VALUE wait) {
  path = rb_str_new_frozen(path);
  struct opening opening = {
      .path = StringValueCStr(path), .follow = RTEST(follow), .wait = RTEST(wait), .result = -EINTR};
  struct open_file *file;
  VALUE self = TypedData_Make_Struct(class, struct open_file, &open_file_type, file);
  file->fd = -1;
  for (;;) {
    opening.folder = rb_io_descriptor(rb_io_get_io(folder));
    if (!opening.wait) {
      open_without_gvl(&opening);
      break;
    }
    /* Copies the folder's descriptor, because the folder may be closed meanwhile. Checks interrupts
     * only after the copy is closed. */
    opening.folder = fcntl(opening.folder, F_DUPFD_CLOEXEC, 0);
    if (opening.folder < 0) rb_sys_fail("dup");
    rb_nogvl(open_without_gvl, &opening, RUBY_UBF_IO, NULL, RB_NOGVL_INTR_FAIL);
    close(opening.folder);
    if (opening.result != -EINTR) break;
    rb_thread_check_ints(); /* raises if interrupted; otherwise, tries again */
  }
  RB_GC_GUARD(folder);
  RB_GC_GUARD(path);
  if (opening.result >= 0) file->fd = opening.result;
  if (opening.wait) rb_thread_check_ints();
  if (opening.result == -EAGAIN) return opening.wait ? Qnil : Qfalse;
  if (opening.result < 0) {
    if (is_absent(-opening.result)) return Qnil;
    rb_syserr_fail(-opening.result, "open a file");
  }
  take_status(file, &opening.status);
  return self;
}

/* call-seq: OpenFile.leads_to?(path, folder) -> true or false
 *
 * Tests whether a path leads to `folder`, an open IO. Also false if only the disk could tell, and
 * where openat2 is missing. */
static VALUE open_file_leads_to(VALUE class, VALUE path, VALUE folder) {
  bool same = false;
#if defined(GYRE_HAVE_OPENAT2) && defined(RESOLVE_CACHED)
  struct stat here, there;
  int expected = rb_io_descriptor(rb_io_get_io(folder));
  int fd = (int)call_openat2(AT_FDCWD, StringValueCStr(path), O_PATH | O_DIRECTORY | O_CLOEXEC, RESOLVE_CACHED);
  if (fd < 0) return Qfalse;
  same = fstat(fd, &there) == 0 && fstat(expected, &here) == 0 && there.st_dev == here.st_dev &&
         there.st_ino == here.st_ino;
  close(fd);
#endif
  return same ? Qtrue : Qfalse;
}

/* Wraps a File, which `close` closes. */
static VALUE open_file_of(VALUE class, VALUE io) {
  struct open_file *file;
  struct stat status;
  io = rb_io_get_io(io);
  int fd = rb_io_descriptor(io);
  if (fstat(fd, &status) < 0) rb_sys_fail("fstat");
  VALUE self = TypedData_Make_Struct(class, struct open_file, &open_file_type, file);
  file->fd = fd;
  RB_OBJ_WRITE(self, &file->io, io);
  take_status(file, &status);
  return self;
}

static VALUE open_file_bytes(VALUE self) { return LL2NUM(get(self)->size); }
static VALUE open_file_modified_ns(VALUE self) { return LL2NUM(get(self)->modified_ns); }

static VALUE open_file_close(VALUE self) {
  struct open_file *file = get(self);
  int fd = file->fd;
  file->fd = -1;
  if (fd < 0) return Qnil;
  if (!file->io) {
    close(fd);
  } else {
    rb_funcall(file->io, rb_intern("close"), 0);
  }
  return Qnil;
}

/* Returns an IO for Exchange#write_file. The IO then owns the descriptor. */
static VALUE open_file_to_io(VALUE self) {
  struct open_file *file = get_open(self);
  if (!file->io) {
    VALUE io = rb_funcall(rb_cFile, rb_intern("for_fd"), 2, INT2NUM(file->fd), rb_str_new_cstr("rb"));
    RB_OBJ_WRITE(self, &file->io, io);
  }
  return file->io;
}

/* Reads a range from the page cache. Returns nil if a part of it is only on disk, and fewer bytes
 * if the file has become shorter. */
static VALUE open_file_read_cached(VALUE self, VALUE from, VALUE size) {
  struct open_file *file = get_open(self);
  int64_t offset = NUM2LL(from);
  long length = NUM2LONG(size);
  if (offset < 0 || length < 0 || length > READ_BYTES_LIMIT) rb_raise(rb_eArgError, "no range of a file");
  VALUE bytes = rb_str_buf_new(length);
  long moved = 0;
  while (moved < length) {
    ssize_t count =
        gyre_nonblocking_pread(file->fd, RSTRING_PTR(bytes) + moved, (size_t)(length - moved), (off_t)(offset + moved));
    if (count == GYRE_IO_FILE_WAITS) return Qnil;
    if (count == GYRE_IO_FILE) {
      count = pread(file->fd, RSTRING_PTR(bytes) + moved, (size_t)(length - moved), (off_t)(offset + moved));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) rb_sys_fail("read a file");
    }
    if (count <= 0) break;
    moved += count;
  }
  rb_str_set_len(bytes, moved);
  return bytes;
}

/* Tests by samples whether a range is in the page cache. */
static VALUE open_file_is_cached(VALUE self, VALUE from, VALUE size) {
  struct open_file *file = get_open(self);
  int64_t offset = NUM2LL(from), length = NUM2LL(size);
  if (offset < 0 || length < 0) rb_raise(rb_eArgError, "no range of a file");
  for (int64_t at = 0; at < length; at += PROBE_BYTES) {
    char byte;
    if (gyre_nonblocking_pread(file->fd, &byte, 1, (off_t)(offset + at)) == GYRE_IO_FILE_WAITS) return Qfalse;
    if (at + 1 == length) break;
    if (at + PROBE_BYTES >= length) at = length - 1 - PROBE_BYTES; /* includes the last byte */
  }
  return Qtrue;
}

void gyre_init_http_file(void) {
  open_file_class = gyre_class(rb_define_module_under(gyre_mGyre, "HTTP"), "OpenFile", NULL);
  rb_define_singleton_method(open_file_class, "beneath", open_file_beneath, 4);
  rb_define_singleton_method(open_file_class, "leads_to?", open_file_leads_to, 2);
  rb_define_singleton_method(open_file_class, "of", open_file_of, 1);
  rb_define_method(open_file_class, "size", open_file_bytes, 0);
  rb_define_method(open_file_class, "modified_ns", open_file_modified_ns, 0);
  rb_define_method(open_file_class, "read_cached", open_file_read_cached, 2);
  rb_define_method(open_file_class, "cached?", open_file_is_cached, 2);
  rb_define_method(open_file_class, "to_io", open_file_to_io, 0);
  rb_define_method(open_file_class, "close", open_file_close, 0);
}
