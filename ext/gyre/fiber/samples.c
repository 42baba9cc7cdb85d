/* Samples the stacks of Ruby's threads by CPU time, for Gyre::Profile (Ruby 3.3 and later). A
 * native thread, which has neither the GVL nor signals, triggers a postponed job when the process
 * has used CPU time. The job adds the running stack to a tree, and weighs it by the advance of its
 * thread's CPU clock, so that a late sample loses nothing.
 *
 *   root ─ label ─ outermost frame ─ … ─ innermost frame ─ (garbage collection)
 *
 * The job calls nothing that checks interrupts: Ruby would drop an exception raised there. */
#include "fiber/sight.h"
#include "loop/timers.h"

void gyre_init_samples(void);

#ifdef GYRE_HAVE_POSTPONED_JOB
#include <pthread.h>
#include <ruby/debug.h>
#include <ruby/fiber/scheduler.h>
#include <signal.h>
#include <stdatomic.h>

#define DEPTH_LIMIT 512        /* further outer frames become one */
#define NODES_LIMIT (1u << 17) /* 4 MB; beyond it time counts for the known part of a stack */
#define COLLECTION Qtrue       /* stand for frames */
#define OUTER_FRAMES Qfalse
#define DUE (-1)
#define TAKEN (-2) /* one is being taken */

struct node {
  VALUE frame;                     /* an iseq or method entry; a label (sight.h) */
  uint32_t parent, child, sibling; /* 0: none; the root has no parent */
  uint32_t count;
  int64_t cpu_ns; /* of the samples that end here */
};

static struct {
  rb_postponed_job_handle_t job;
  pid_t pid;     /* of the process that is sampled; 0: none */
  bool open;     /* until samples_stop reads the tree */
  uintptr_t run; /* number of the present profile, or of the next one; changes with the lock */
  int64_t interval_ns, end_ns;
  VALUE scheduler;            /* 0: any */
  _Atomic int64_t sampled_ns; /* the process's CPU time after the last sample; DUE; TAKEN */
  int64_t before_ns;          /* the same, while one is due */
  size_t gc_ms;
  struct node *nodes;
  uint32_t count, capacity;
  VALUE label, frames[DEPTH_LIMIT]; /* of the sample that is being taken */
  int depth;
} samples;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static _Thread_local struct {
  uintptr_t run;
  int64_t cpu_ns;
} seen; /* when this thread was last sampled */

static void acquire(void) { pthread_mutex_lock(&lock); }

static void release(void) { pthread_mutex_unlock(&lock); }

/* Ends the timer, which triggers nothing from here on. */
static void end_run(void) {
  acquire();
  samples.run++;
  samples.open = false;
  release();
}

/* Waits until the program has run since the last sample: under GC.stress a sample takes longer than
 * the interval, and only samples would run. A sample that is still due is triggered again: Ruby
 * interrupts the thread that runs at that moment, which may go to sleep without taking it. */
static bool is_due(void) {
  int64_t sampled_ns = atomic_load(&samples.sampled_ns);
  if (sampled_ns == DUE) return true;
  return sampled_ns >= 0 && gyre_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - sampled_ns >= samples.interval_ns / 20 &&
         gyre_clock_ns(CLOCK_MONOTONIC) < samples.end_ns;
}

static void *tick(void *run) {
  struct timespec pause = {samples.interval_ns / 1000000000, samples.interval_ns % 1000000000};
  for (bool live = true; live;) {
    nanosleep(&pause, NULL);
    acquire();
    live = samples.run == (uintptr_t)run;
    if (live && is_due()) {
      atomic_store(&samples.sampled_ns, DUE);
      rb_postponed_job_trigger(samples.job);
    }
    release();
  }
  return NULL;
}

/* Returns the number of the parent's child with this frame, or the parent's where memory ends. Only
 * a label becomes a child of the root. */
static uint32_t child_of(uint32_t parent, VALUE frame, bool is_label) {
  uint32_t number = samples.nodes[parent].child;
  while (number && samples.nodes[number].frame != frame) number = samples.nodes[number].sibling;
  if (number) return number;
  if (!parent && !is_label) return 0;
  if (samples.count == samples.capacity) {
    if (samples.capacity == NODES_LIMIT) return parent;
    struct node *more = realloc(samples.nodes, sizeof(struct node) * samples.capacity * 2);
    if (!more) return parent;
    samples.nodes = more;
    samples.capacity *= 2;
  }
  struct node *above = &samples.nodes[parent];
  samples.nodes[samples.count] = (struct node){.frame = frame, .parent = parent, .sibling = above->child};
  return above->child = samples.count++;
}

static size_t collected_ms(void) { return rb_gc_stat(ID2SYM(rb_intern("time"))); }

/* The postponed job. */
static void take(void *unused) {
  if (!samples.open || samples.pid != getpid()) return;
  atomic_store(&samples.sampled_ns, TAKEN);
  int64_t cpu_ns = gyre_clock_ns(CLOCK_THREAD_CPUTIME_ID);
  int64_t spent_ns = cpu_ns - seen.cpu_ns; /* a thread's first sample counts since the last one of any thread */
  int64_t limit_ns = gyre_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - samples.before_ns;
  if (seen.run != samples.run) spent_ns = cpu_ns < limit_ns ? cpu_ns : limit_ns;
  size_t gc_ms = collected_ms();
  int64_t gc_ns = (int64_t)(gc_ms - samples.gc_ms) * 1000000;
  if (gc_ns > spent_ns) gc_ns = spent_ns;
  samples.gc_ms = gc_ms;
  VALUE label = samples.scheduler && samples.scheduler != rb_fiber_scheduler_get() ? Qnil : gyre_sight_label();
  samples.label = RB_TYPE_P(label, T_STRING) ? rb_str_to_interned_str(label) : label;
  samples.depth = rb_profile_frames(0, DEPTH_LIMIT, samples.frames, NULL);
  uint32_t number = child_of(0, samples.label, true);
  if (samples.depth == DEPTH_LIMIT) number = child_of(number, OUTER_FRAMES, false);
  for (int i = samples.depth; i-- > 0;) number = child_of(number, samples.frames[i], false);
  samples.nodes[number].count++;
  samples.nodes[number].cpu_ns += spent_ns - gc_ns;
  if (gc_ns > 0) {
    number = child_of(number, COLLECTION, false); /* may move the nodes */
    samples.nodes[number].cpu_ns += gc_ns;
  }
  seen.run = samples.run;
  seen.cpu_ns = gyre_clock_ns(CLOCK_THREAD_CPUTIME_ID);
  samples.before_ns = gyre_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
  atomic_store(&samples.sampled_ns, samples.before_ns);
}

static VALUE clear(VALUE unused) {
  free(samples.nodes);
  samples.nodes = NULL;
  samples.count = samples.capacity = 0;
  samples.depth = 0;
  samples.pid = 0;
  return Qnil;
}

static bool start_timer(void) {
  pthread_t timer;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = pthread_create(&timer, NULL, tick, (void *)samples.run);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return !error && !pthread_detach(timer);
}

/* Samples.start(interval_ns, limit_ns, scheduler): false if this process is being sampled already.
 * With a scheduler, only its thread's samples have labels. */
static VALUE samples_start(VALUE self, VALUE interval_ns, VALUE limit_ns, VALUE scheduler) {
  int64_t interval = NUM2LL(interval_ns), limit = NUM2LL(limit_ns);
  if (samples.pid == getpid()) return Qfalse;
  end_run();
  clear(Qnil); /* of a fork's parent */
  if (!(samples.nodes = malloc(sizeof(struct node) * 1024))) rb_memerror();
  samples.capacity = 1024;
  samples.nodes[0] = (struct node){.frame = Qnil};
  samples.count = 1;
  samples.interval_ns = interval;
  samples.scheduler = NIL_P(scheduler) ? 0 : scheduler;
  samples.end_ns = gyre_clock_ns(CLOCK_MONOTONIC) + limit;
  samples.gc_ms = collected_ms();
  samples.before_ns = gyre_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
  atomic_store(&samples.sampled_ns, samples.before_ns);
  seen.run = samples.run;
  seen.cpu_ns = gyre_clock_ns(CLOCK_THREAD_CPUTIME_ID);
  samples.pid = getpid();
  samples.open = true;
  if (start_timer()) return Qtrue;
  end_run();
  clear(Qnil);
  rb_raise(rb_eThreadError, "the system gives no thread for a profile");
}

static VALUE name_of(VALUE label) {
  if (gyre_sight_route_name) return gyre_sight_route_name(label);
  return RB_TYPE_P(label, T_STRING) ? label : Qnil;
}

/* Returns [name, path, line]. */
static VALUE describe(const struct node *node) {
  VALUE frame = node->frame;
  if (!node->parent) return rb_ary_new_from_args(1, NIL_P(frame) ? frame : name_of(frame));
  if (frame == COLLECTION) return rb_ary_new_from_args(1, rb_str_new_lit("(garbage collection)"));
  if (frame == OUTER_FRAMES) return rb_ary_new_from_args(1, rb_str_new_lit("(outer frames)"));
  return rb_ary_new_from_args(3, rb_profile_frame_full_label(frame), rb_profile_frame_path(frame),
                              rb_profile_frame_first_lineno(frame));
}

static VALUE read_tree(VALUE unused) {
  VALUE frames = rb_ary_new(), nodes = rb_ary_new_capa(samples.count), numbers = rb_hash_new();
  for (uint32_t i = 0; i < samples.count; i++) {
    const struct node *node = &samples.nodes[i];
    VALUE address = ULL2NUM(node->frame), number = rb_hash_lookup(numbers, address);
    if (NIL_P(number)) {
      number = LONG2NUM(RARRAY_LEN(frames));
      rb_ary_push(frames, describe(node));
      rb_hash_aset(numbers, address, number);
    }
    rb_ary_push(nodes,
                rb_ary_new_from_args(4, UINT2NUM(node->parent), number, UINT2NUM(node->count), LL2NUM(node->cpu_ns)));
  }
  return rb_ary_new_from_args(2, frames, nodes);
}

/* Samples.stop: [frames, nodes] with frames [name, path, line] and nodes [parent, frame, count,
 * nanoseconds], each after its parent; nil if nothing was sampled. */
static VALUE samples_stop(VALUE self) {
  end_run();
  return samples.nodes ? rb_ensure(read_tree, Qnil, clear, Qnil) : Qnil;
}

static void mark(void *unused) {
  for (uint32_t i = 0; i < samples.count; i++) rb_gc_mark(samples.nodes[i].frame);
  gyre_mark(samples.frames, (size_t)samples.depth);
  rb_gc_mark(samples.label);
  rb_gc_mark(samples.scheduler);
}

/* Ruby ends: the timer must not touch it. */
static void release_all(void *unused) { end_run(); }

GYRE_TYPE(type, "Gyre::Samples", mark, release_all, NULL, 0);

void gyre_init_samples(void) {
  samples.label = Qnil;
  samples.job = rb_postponed_job_preregister(0, take, NULL);
  if (samples.job == POSTPONED_JOB_HANDLE_INVALID || pthread_atfork(acquire, release, release)) return;
  gyre_kept(rb_data_typed_object_wrap(rb_cObject, &samples, &type));
  VALUE module = rb_define_module_under(gyre_mGyre, "Samples");
  rb_define_singleton_method(module, "start", samples_start, 3);
  rb_define_singleton_method(module, "stop", samples_stop, 0);
}
#else
void gyre_init_samples(void) {}
#endif
