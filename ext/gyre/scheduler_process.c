/*
 * Waiting for child processes (the process_wait hook): a pidfd on the loop where the kernel has it, else
 * a thread.
 */
#include "feature.h"
#include "scheduler.h"

#include <ruby/io.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static ID id_wait, id_wait_in_thread;
static VALUE process_status_class;

struct process_wait {
  struct gyre_scheduler *scheduler;
  int fd;
  VALUE pid;
  int flags;
};

static VALUE process_wait_body(VALUE argument) {
  struct process_wait *wait = (struct process_wait *)argument;
  for (;;) {
    VALUE status = rb_funcall(process_status_class, id_wait, 2, wait->pid, INT2NUM(wait->flags | WNOHANG));
    if (!NIL_P(status)) return status;
    int ready = gyre_wait_io(wait->scheduler, wait->fd, GYRE_READABLE, -1);
    if (ready < 0) rb_syserr_fail(-ready, "wait for a child process");
  }
}

static VALUE process_wait_ensure(VALUE argument) {
  struct process_wait *wait = (struct process_wait *)argument;
  gyre_loop_forget(&wait->scheduler->loop, wait->fd);
  close(wait->fd);
  return Qnil;
}

/*
 * Waits for a child process (Fiber::Scheduler#process_wait): by pidfd (Linux 5.3), else in a thread.
 *
 * @param pid [Integer] as in Process.wait
 * @param flags [Integer] as in Process.wait
 * @return [Process::Status]
 */
static VALUE scheduler_process_wait(VALUE self, VALUE pid, VALUE flags) {
  struct process_wait wait = {.scheduler = gyre_scheduler_opened(self), .fd = -1, .pid = pid, .flags = NUM2INT(flags)};
#ifdef GYRE_HAVE_PIDFD_OPEN
  if (NUM2PIDT(pid) > 0 && !(wait.flags & ~WNOHANG)) wait.fd = (int)syscall(SYS_pidfd_open, NUM2PIDT(pid), 0);
#endif
  if (wait.fd < 0) return rb_funcall(self, id_wait_in_thread, 2, pid, flags);
  rb_update_max_fd(wait.fd);
  gyre_loop_forget(&wait.scheduler->loop, wait.fd); /* a new number, whatever was known of it */
  return rb_ensure(process_wait_body, (VALUE)&wait, process_wait_ensure, (VALUE)&wait);
}

void gyre_init_scheduler_process(void) {
  id_wait = rb_intern("wait");
  id_wait_in_thread = rb_intern("process_wait_in_thread");
  process_status_class = rb_path2class("Process::Status");
  rb_gc_register_mark_object(process_status_class);
  rb_define_method(gyre_cNativeScheduler, "process_wait", scheduler_process_wait, 2);
}
