/* The process_wait hook, and Gyre::Orphans.adopt. */
#include "fiber/scheduler.h"

#ifdef GYRE_HAVE_SUBREAPER
#include <sys/prctl.h>
#endif
#ifdef GYRE_HAVE_PIDFD_OPEN
#include <sys/syscall.h>
#endif
#include <sys/wait.h>

static VALUE process_status_class;

struct process_wait {
  struct gyre_scheduler *scheduler;
  int fd;
  VALUE pid;
  int flags;
};

VALUE gyre_child_status(VALUE pid, int flags) {
  return rb_funcall(process_status_class, rb_intern("wait"), 2, pid, INT2NUM(flags | WNOHANG));
}

static VALUE process_wait_body(VALUE argument) {
  struct process_wait *wait = (struct process_wait *)argument;
  for (;;) {
    VALUE status = gyre_child_status(wait->pid, wait->flags);
    if (!NIL_P(status)) return status;
    int ready = gyre_wait_io(wait->scheduler, wait->fd, GYRE_READABLE, -1, wait->pid);
    if (ready < 0) rb_syserr_fail(-ready, "wait for a child process");
  }
}

int gyre_child_descriptor(pid_t pid) {
  int fd = -1;
#ifdef GYRE_HAVE_PIDFD_OPEN
  if (pid > 0) fd = (int)syscall(SYS_pidfd_open, pid, 0);
#endif
  if (fd >= 0) rb_update_max_fd(fd);
  return fd;
}

static VALUE process_wait_ensure(VALUE argument) {
  struct process_wait *wait = (struct process_wait *)argument;
  wait->scheduler->loop.outside--;
  gyre_loop_forget(&wait->scheduler->loop, wait->fd);
  close(wait->fd);
  return Qnil;
}

/* Waits for a child (Fiber::Scheduler#process_wait), by pidfd (Linux 5.3) or in a thread. */
static VALUE scheduler_process_wait(VALUE self, VALUE pid, VALUE flags) {
  struct process_wait wait = {.scheduler = gyre_scheduler_opened(self), .fd = -1, .pid = pid, .flags = NUM2INT(flags)};
  if (wait.flags & WNOHANG) return gyre_child_status(pid, wait.flags);
  if (!wait.flags) wait.fd = gyre_child_descriptor(NUM2PIDT(pid));
  if (wait.fd < 0) return rb_funcall(self, rb_intern("process_wait_in_thread"), 2, pid, flags);
  gyre_loop_forget(&wait.scheduler->loop, wait.fd); /* forgets an earlier file with this number */
  wait.scheduler->loop.outside++;
  return rb_ensure(process_wait_body, (VALUE)&wait, process_wait_ensure, (VALUE)&wait);
}

/* Makes this process the parent of orphans among its descendants (prctl(2),
 * PR_SET_CHILD_SUBREAPER). Exec keeps the setting; forked children do not inherit it. Returns false
 * if that is unsupported. */
static VALUE orphans_adopt(VALUE self) {
#ifdef GYRE_HAVE_SUBREAPER
  return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0 ? Qtrue : Qfalse;
#else
  return Qfalse;
#endif
}

void gyre_init_scheduler_process(void) {
  process_status_class = rb_path2class("Process::Status");
  rb_define_method(gyre_cScheduler, "process_wait", scheduler_process_wait, 2);
  rb_define_singleton_method(rb_define_module_under(gyre_mGyre, "Orphans"), "adopt", orphans_adopt, 0);
}
