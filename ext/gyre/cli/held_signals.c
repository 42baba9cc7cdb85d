/* Gyre::HeldSignals keeps INT and TERM while a server replaces its program
 * (lib/gyre/cli/process/successor.rb): Ruby only notes a signal for its main thread, and exec would
 * lose the note. From hold to exec, signals are written to a file for the new program. (Blocking
 * the signals would not help: Ruby unblocks them before exec.) */
#include "gyre.h"

#include <signal.h>

static const int held[] = {SIGINT, SIGTERM};
#define HELD (sizeof(held) / sizeof(held[0]))

static struct sigaction former[HELD];
static volatile sig_atomic_t notes = -1; /* the file's descriptor; -1: signals are not held */
static volatile sig_atomic_t noted;      /* the last signal */

/* The signal handler; may run in any thread. */
static void note(int signal) {
  const int error = errno;
  const char byte = (char)signal;
  noted = signal;
  if (notes >= 0 && write((int)notes, &byte, 1) < 0) noted = signal; /* a failed write is ignored */
  errno = error;
}

/* call-seq: hold(descriptor): writes the number of each later signal to `descriptor`, as a byte. */
static VALUE signals_hold(VALUE self, VALUE descriptor) {
  struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART};
  const int file = NUM2INT(descriptor);
  if (notes >= 0) rb_raise(rb_eRuntimeError, "signals are held already");
  sigemptyset(&action.sa_mask);
  noted = 0;
  notes = file;
  for (size_t i = 0; i < HELD; i++) sigaction(held[i], &action, &former[i]);
  return Qnil;
}

/* call-seq: release: ends the hold, after a failed exec. Returns the last held signal, or nil. */
static VALUE signals_release(VALUE self) {
  const int last = noted;
  if (notes >= 0) {
    for (size_t i = 0; i < HELD; i++) sigaction(held[i], &former[i], NULL);
    notes = -1;
  }
  noted = 0;
  return last > 0 ? INT2NUM(last) : Qnil;
}

void gyre_init_held_signals(void) {
  VALUE module = rb_define_module_under(gyre_mGyre, "HeldSignals");
  rb_define_singleton_method(module, "hold", signals_hold, 1);
  rb_define_singleton_method(module, "release", signals_release, 0);
}
