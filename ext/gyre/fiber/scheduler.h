/*
 * The scheduler: fibers on a loop. fibers.c, workers.c, interrupts.c and drive.c move them, wait.c
 * makes them wait; scheduler*.c are Ruby's hooks on top.
 *
 * A waiting fiber puts a `struct gyre_parked` on its own stack and parks. Control goes to the next
 * ready fiber, else to the driver; without a driver the fiber itself drives the loop until it is
 * woken. Fibers move by transfer only: resume and yield belong to the program.
 */
#ifndef GYRE_SCHEDULER_H
#define GYRE_SCHEDULER_H

#include "fiber/blocked.h"
#include "loop/loop.h"

#include <ruby.h>
#include <ruby/st.h>

struct gyre_scheduler;

#define GYRE_READY_BUDGET 255        /* fibers run between two questions to the kernel */
#define GYRE_CLOCK_INTERVAL 4        /* of these between two reads of the clock */
#define GYRE_IDLE_WORKERS_LIMIT 1024 /* finished fibers kept for reuse */

enum gyre_parked_state { GYRE_PARKED, GYRE_READY, GYRE_RUNNING };

struct gyre_parked {
  struct gyre_list node;         /* in scheduler->waits.parked or scheduler->waits.ready */
  struct gyre_list foreign_node; /* in scheduler->waits.foreign, if it is foreign */
  VALUE fiber;
  VALUE entered;                    /* the fiber entered last before this wait: `fiber`, or one that has resumed it */
  struct gyre_worker *worker;       /* of `entered`, if that is a pooled fiber */
  struct gyre_parked *outer;        /* outer wait of the same worker, in which a signal handler waits */
  struct gyre_interrupt *interrupt; /* raised as soon as the fiber goes on */
  bool foreign;                     /* not a pooled fiber */
  bool first;                       /* goes first: its fiber has just started another */
  VALUE blocker;                    /* awaited object, for display; Qundef outside of a struct gyre_wait */
  enum gyre_parked_state state;
};

/* A pooled fiber and its job. */
struct gyre_worker {
  struct gyre_list node;               /* in scheduler->pool.busy or scheduler->pool.idle */
  struct gyre_blocked_node table_node; /* in scheduler->pool.workers */
  VALUE fiber;
  struct gyre_parked *parked;        /* wait of its fiber, or of a fiber resumed by it; NULL while it runs */
  VALUE (*function)(VALUE argument); /* NULL while idle */
  VALUE argument;
  VALUE storage;          /* initial fiber storage, or nil */
  bool once;              /* the fiber ends with its job */
  uintptr_t unused_below; /* address in its stack, while idle */
};

/* A fiber that runs turns until a condition holds. The newest drives and also checks the conditions
 * of the overtaken ones, which are parked. */
struct gyre_driving {
  struct gyre_driving *before;
  struct gyre_parked parked; /* RUNNING while it is the newest */
  bool (*done)(struct gyre_scheduler *, struct gyre_driving *);
  void *context;
  bool asked;   /* the condition was checked in this turn */
  bool overdue; /* began with a spent budget: asks the kernel before its own fiber continues */
};

/* A block that another fiber runs when entered; then it continues its wait. */
struct gyre_question {
  VALUE asker, block, answer, error;
};

/* An exception on its way into a fiber. */
struct gyre_interrupt {
  struct gyre_list node; /* in scheduler->interrupts.due, raising, postponed, deferred or held */
  VALUE fiber, exception;
  VALUE id;                   /* id of a fiber that may be collected (gyre_live_fiber), or nil */
  struct gyre_parked *parked; /* the wait that raises it, once known */
  struct gyre_timer retry;
  struct gyre_interrupt **owner;  /* the sender's reference, for gyre_interrupt_cancel; set to NULL when raised */
  struct gyre_interrupt **raiser; /* the driver's reference during Fiber#raise; set to NULL as well */
};

struct gyre_waits {
  struct gyre_list parked, ready;
  struct gyre_list foreign; /* parked fibers outside the pool, which the scheduler marks */
  size_t parked_count, ready_count;
};

/* interrupts.c */
struct gyre_interrupts {
  struct gyre_list due;       /* in the next turn */
  struct gyre_list raising;   /* fibers are ready to raise these */
  struct gyre_list postponed; /* wait until their fiber has run */
  struct gyre_list deferred;  /* until their timer fires */
  struct gyre_list held;      /* wait for a wait of their fiber, which the program has suspended */
  struct gyre_list timeouts;  /* on the heap (scheduler_timeout.c) */
  bool is_away;               /* the driver is inside Fiber#raise and cannot run a question */
  VALUE live_fibers; /* ObjectSpace::WeakMap: object_id => fiber, for gyre_live_fiber; nil before its first use */
};

/* workers.c */
struct gyre_pool {
  struct gyre_list busy, idle;
  struct gyre_list left_behind;      /* their fibers are in the parent of this forked child */
  struct gyre_blocked_table workers; /* all workers, by fiber */
  size_t busy_count, idle_count;
  size_t idle_least;  /* since the last trim */
  size_t freed_count; /* workers freed so far */
  struct gyre_timer trim;
  VALUE worker_block;           /* the body of every worker's fiber; nil until made */
  struct gyre_worker *starting; /* its fiber is entered for the first time */
  bool reset_storage;           /* this Ruby has fiber storage */
};

/* drive.c */
struct gyre_drivers {
  struct gyre_driving *newest;
  size_t overtaken_count; /* parked drivers */
  VALUE fiber;            /* fiber of the newest driver, or nil */
};

/* fibers.c */
struct gyre_running {
  VALUE entered;                  /* the fiber entered last, or nil; never dereferenced */
  struct gyre_worker *worker;     /* its worker, if pooled */
  struct gyre_question *question; /* argument for the fiber entered next */
};

/* How long fibers run before the kernel is asked. */
struct gyre_slice {
  uint64_t random;   /* state of the generator that draws the next ready fiber; 0: in order */
  unsigned budget;   /* switches until the kernel is asked */
  int64_t began_ns;  /* the coarse time when the budget was filled */
  unsigned unwaited; /* calls that succeeded without a wait */
  uint64_t switches; /* fibers taken off the queue */
};

/* scheduler_block.c */
struct gyre_blocks {
  struct gyre_blocked_table table; /* nodes by fiber, for unblock */
  st_table *early;   /* fiber => blocker of an unblock that came before the fiber parked; nearly always empty */
  st_table *signals; /* fiber in ConditionVariable#wait => whether an unblock for a mutex has come */
};

/* wait.c: closed descriptors and deadlocks */
struct gyre_sweeping {
  struct gyre_list descriptor_waits;                      /* struct gyre_wait: descriptors that the program may close */
  void (*before_sleep)(struct gyre_scheduler *scheduler); /* called before the loop waits */
  struct gyre_timer timer;
  uint64_t switches; /* at the last sweep */
  bool suspicious;   /* also looks for deadlocks while timers or descriptors may wake fibers */
};

struct gyre_scheduler {
  struct gyre_loop loop;
  VALUE self;
  VALUE thread; /* thread whose fibers it moves; nil before the first wait */
  struct gyre_waits waits;
  struct gyre_interrupts interrupts;
  struct gyre_pool pool;
  struct gyre_drivers drivers;
  struct gyre_running running;
  struct gyre_slice slice;
  struct gyre_blocks blocks;
  struct gyre_sweeping sweeping;
  struct gyre_timer unwinding; /* limits the time of stopped fibers at closing */
  struct gyre_list posts;      /* struct gyre_post from other threads, for the next turn */
  struct gyre_list keepers;    /* count of listening sockets, which keep `run` going */
  struct gyre_list clients;    /* struct gyre_client: C parts with Ruby objects to mark */
  bool closed;
  bool is_native; /* false: the portable engine's */
};

/* Work for the loop's thread; see gyre_post. */
struct gyre_post {
  struct gyre_list node; /* in scheduler->posts */
  void (*run)(struct gyre_scheduler *scheduler, struct gyre_post *post);
};

/* A C part that holds Ruby objects on a scheduler. */
struct gyre_client {
  struct gyre_list node;
  bool due; /* not notified yet */
  void (*mark)(struct gyre_client *client);
  void (*closing)(struct gyre_client *client); /* the loop is about to close */
  void (*forked)(struct gyre_client *client);  /* the loop was reopened in a child process */
  void (*moved)(struct gyre_client *client);   /* the loop goes on in a daemon; or NULL */
};

extern VALUE gyre_mGyre, gyre_cScheduler;

/* Skips the type check (25 instructions in every hook): only the class's allocator makes
 * objects. */
static inline struct gyre_scheduler *gyre_scheduler_get(VALUE self) { return RTYPEDDATA_DATA(self); }

/* The same; raises RuntimeError if it is closed. */
static inline struct gyre_scheduler *gyre_scheduler_opened(VALUE self) {
  struct gyre_scheduler *scheduler = gyre_scheduler_get(self);
  if (scheduler->closed) rb_raise(rb_eRuntimeError, "the scheduler is closed");
  return scheduler;
}

/* Forgets an unblock that came before the fiber parked. */
static inline void gyre_forget_early(struct gyre_scheduler *scheduler, VALUE fiber) {
  st_data_t key = (st_data_t)fiber;
  if (scheduler->blocks.early && scheduler->blocks.early->num_entries)
    (void)st_delete(scheduler->blocks.early, &key, NULL);
}

/* scheduler_block.c */
void gyre_init_scheduler_block(void);
void gyre_block_init(struct gyre_scheduler *scheduler);
void gyre_block_mark(struct gyre_scheduler *scheduler);
void gyre_block_free(struct gyre_scheduler *scheduler);
void gyre_block_forked(struct gyre_scheduler *scheduler);
/* Returns this thread's native scheduler; NULL without one, or if it is closed. */
struct gyre_scheduler *gyre_scheduler_here(void);

/* The same; raises RuntimeError without one. */
struct gyre_scheduler *gyre_scheduler_current(void);

bool gyre_scheduler_is_native(VALUE object);

static inline struct gyre_scheduler *gyre_scheduler_of(struct gyre_loop *loop) {
  return GYRE_CONTAINER(loop, struct gyre_scheduler, loop);
}

/* Fibers can only be entered in the thread that made them. */
static inline bool gyre_thread_is_foreign(const struct gyre_scheduler *scheduler) {
  return !NIL_P(scheduler->thread) && scheduler->thread != rb_thread_current();
}

/* fibers.c, workers.c, interrupts.c, drive.c */
/* Binds the scheduler to this thread; raises ThreadError in another one. */
void gyre_thread_check(struct gyre_scheduler *scheduler);
void gyre_init_fibers(void);
void gyre_fibers_init(struct gyre_scheduler *scheduler);
void gyre_fibers_mark(struct gyre_scheduler *scheduler);
void gyre_fibers_free(struct gyre_scheduler *scheduler);
void gyre_fibers_forked(struct gyre_scheduler *scheduler);
size_t gyre_fibers_memory(const struct gyre_scheduler *scheduler);

/* Prepares to park the current fiber; gyre_wake may be called from here on. */
void gyre_park_begin(struct gyre_scheduler *scheduler, struct gyre_parked *parked, VALUE blocker);
/* Leaves the current fiber until it is woken. Raises exceptions sent to the fiber. */
void gyre_park(struct gyre_scheduler *scheduler, struct gyre_parked *parked);
/* Must follow each gyre_park_begin (rb_ensure). */
void gyre_park_end(struct gyre_scheduler *scheduler, struct gyre_parked *parked);

/* Makes a parked fiber ready; ignores a fiber that is ready already. */
void gyre_wake(struct gyre_scheduler *scheduler, struct gyre_parked *parked);

/* Runs in the driver, once, at the beginning of its next turn; any thread with the GVL may post.
 * Ignores a pending post. */
void gyre_post(struct gyre_scheduler *scheduler, struct gyre_post *post);

/* Requeues the current fiber at the end and lets the others run. */
void gyre_yield(struct gyre_scheduler *scheduler);

/* True if the fiber has run for some milliseconds since the kernel was asked. Always false with a
 * virtual clock or a drawn order. */
static inline bool gyre_slice_is_over(const struct gyre_scheduler *scheduler) {
  if (scheduler->slice.random || scheduler->loop.virtual_ns) return false;
  int64_t now_ns = gyre_timers_coarse_now();
  return now_ns != scheduler->slice.began_ns && now_ns > scheduler->loop.now_ns;
}

/* Once the slice is over, asks the kernel and lets other fibers run. Called before calls that
 * may never wait; may raise. */
void gyre_yield_if_due(struct gyre_scheduler *scheduler);

/* For calls too short to read the clock each time; true for every fourth call. */
static inline bool gyre_clock_is_due(struct gyre_scheduler *scheduler) {
  return ++scheduler->slice.unwaited % GYRE_CLOCK_INTERVAL == 0;
}

/* Runs function(argument) in a pooled fiber, at once up to its first wait; then the caller goes
 * on. `storage` is its initial fiber storage, a Hash or nil. Returns the fiber. */
VALUE gyre_spawn(struct gyre_scheduler *scheduler, VALUE (*function)(VALUE), VALUE argument, VALUE storage);
/* The same in a fiber of its own, which ends with the job. `options` are those of Fiber.new, or
 * nil. */
VALUE gyre_spawn_once(struct gyre_scheduler *scheduler, VALUE (*function)(VALUE), VALUE argument, VALUE options);

/* Makes the loop raise an exception in a fiber; nil ends the fiber (Fiber#kill). From any
 * thread. Returns NULL if the fiber's job is over. */
struct gyre_interrupt *gyre_interrupt_fiber(struct gyre_scheduler *scheduler, VALUE fiber, VALUE exception);

/* Interrupts a fiber through a weak reference. */
struct gyre_interrupt *gyre_interrupt_weakly(struct gyre_scheduler *scheduler, VALUE fiber, VALUE id, VALUE exception);

/* Weak references to fibers: the id of a fiber, and the fiber of an id (nil once collected). */
VALUE gyre_fiber_id(struct gyre_scheduler *scheduler, VALUE fiber);
VALUE gyre_live_fiber(struct gyre_scheduler *scheduler, VALUE id);

/* True if the fiber has a job. */
bool gyre_fiber_is_working(struct gyre_scheduler *scheduler, VALUE fiber);
/* Returns the wait of a fiber that was unblocked and has not gone on yet, or NULL. An interrupt
 * would lose the unblock's gift: a lock, or an element of a queue. */
struct gyre_wait *gyre_given(struct gyre_scheduler *scheduler, const struct gyre_parked *parked);
/* Passes an unused wake-up to another waiter. Returns whether there is one. */
bool gyre_hand_on(struct gyre_scheduler *scheduler, struct gyre_wait *wait);

/* True if an unblock with this blocker comes from a mutex. */
bool gyre_is_mutex(VALUE blocker);

/* Frees the idle workers, as no jobs follow. */
void gyre_workers_close(struct gyre_scheduler *scheduler);

/* True if the current fiber is a pooled one, which lives until its job ends. */
bool gyre_fiber_is_pooled(struct gyre_scheduler *scheduler);

/* Returns the fiber's wait, or that of a fiber which it has resumed; NULL if it runs, or the
 * program has suspended it. */
struct gyre_parked *gyre_wait_of(struct gyre_scheduler *scheduler, VALUE fiber);

/* Removes and frees it. */
void gyre_interrupt_cancel(struct gyre_scheduler *scheduler, struct gyre_interrupt *interrupt);

/* Raises Gyre::Stop in all waits and gives them time to clean up. */
void gyre_unwind(struct gyre_scheduler *scheduler);

/* Runs turns until `done` is true; the driving has its context. */
void gyre_drive(struct gyre_scheduler *scheduler, bool (*done)(struct gyre_scheduler *, struct gyre_driving *),
                void *context);
bool gyre_nothing_left(struct gyre_scheduler *scheduler, struct gyre_driving *driving);

/* wait.c */
struct gyre_wait {
  struct gyre_scheduler *scheduler;
  struct gyre_list descriptor_node;      /* in scheduler->sweeping.descriptor_waits */
  struct gyre_blocked_node blocked_node; /* in scheduler->blocks.table during a block */
  struct gyre_parked parked;
  struct gyre_timer timer;
  struct gyre_watch watch;
  unsigned ready; /* reported by the watch; 0 after a timeout */
  bool timed_out;
  bool unblocked; /* takes precedence over timed_out: the fiber keeps the gift */
  /* For a wait on several descriptors: true if one of them is closed; else NULL. */
  bool (*is_broken)(struct gyre_wait *wait);
};

/* `blocker` is only for display. */
void gyre_wait_begin(struct gyre_scheduler *scheduler, struct gyre_wait *wait, VALUE blocker);
/* Raises NoMemoryError; the wait has ended then. */
void gyre_wait_arm(struct gyre_wait *wait, int64_t timeout_ns);
/* Parks until the wait's timer or a watch wakes the fiber. May be repeated. Must be followed by
 * gyre_wait_end (rb_ensure). */
void gyre_wait_again(struct gyre_wait *wait);
void gyre_wait_end(struct gyre_wait *wait);
/* Parks; the argument is a struct gyre_wait. For rb_ensure. */
VALUE gyre_wait_body(VALUE wait);

/* Parks until `fd` is ready for one of `events`. Returns the ready events, 0 after the timeout,
 * or -errno. A negative timeout has no limit. */
int gyre_wait_io(struct gyre_scheduler *scheduler, int fd, unsigned events, int64_t timeout_ns, VALUE blocker);

/* For scheduler->sweeping.before_sleep: arms the check for closed descriptors and deadlocks. */
void gyre_sweep(struct gyre_scheduler *scheduler);

/* scheduler_read.c: parks until a thread of Gyre::Offload has read; offset -1 is the file's
 * position. Returns an object with the bytes, and their count or -errno. */
VALUE gyre_read_in_thread(VALUE io, int fd, off_t offset, size_t length);
ssize_t gyre_thread_read_result(VALUE read, const char **bytes);
/* Frees its memory before the collector would. */
void gyre_thread_read_free(VALUE read);
void gyre_init_scheduler_read(void);

void gyre_init_wait(void);
void gyre_init_scheduler_process(void);
/* A pidfd (Linux 5.3) of a child process; -1 without. */
int gyre_child_descriptor(pid_t pid);
/* The Process::Status of an ended child, which is reaped; nil while it runs. */
VALUE gyre_child_status(VALUE pid, int flags);
void gyre_init_scheduler_select(void);
void gyre_init_scheduler_inspection(void);
/* The Hash of Gyre::Loop#stats; the scheduler is NULL for a loop without fibers. */
VALUE gyre_stats(const struct gyre_loop *loop, const struct gyre_scheduler *scheduler);
/* scheduler_timeout.c: tells the remaining timeouts that the scheduler is gone. */
void gyre_timeouts_free(struct gyre_scheduler *scheduler);
void gyre_init_scheduler_timeout(void);
void gyre_init_scheduler_testing(void);
void gyre_init_scheduler_io(void);

/* Converts a duration (nil, Integer, Float, Rational) to nanoseconds; -1 for nil. Raises
 * ArgumentError if negative. */
int64_t gyre_duration_ns(VALUE duration);

#endif
