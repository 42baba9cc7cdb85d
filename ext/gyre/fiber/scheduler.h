/* The scheduler: fibers on a loop. fibers.c, workers.c, interrupts.c and drive.c move them, wait.c
 * parks them; scheduler*.c are Ruby's hooks.
 *
 * A waiting fiber has a `struct gyre_parked` on its stack. Control passes to the next ready fiber,
 * else to the driver; without a driver the fiber itself drives until it is woken. Fibers move only
 * by transfer: resume and yield are the program's. */
#pragma once

#include "gyre.h"

#include "fiber/blocked.h"
#include "loop/loop.h"

#include <ruby/st.h>

struct gyre_scheduler;

#define GYRE_READY_BUDGET 255        /* fibers run between two calls of the kernel */
#define GYRE_CLOCK_INTERVAL 4        /* of these between two clock reads */
#define GYRE_IDLE_WORKERS_LIMIT 1024 /* finished fibers kept for reuse */

enum gyre_parked_state { GYRE_PARKED, GYRE_READY, GYRE_RUNNING };

struct gyre_parked {
  struct gyre_scheduler *scheduler;
  struct gyre_list node;         /* in scheduler->waits.parked or scheduler->waits.ready */
  struct gyre_list foreign_node; /* in scheduler->waits.foreign, if foreign */
  VALUE fiber;
  VALUE entered;                    /* fiber entered last before the wait: `fiber` or its resumer */
  struct gyre_worker *worker;       /* `entered`'s, if pooled */
  struct gyre_parked *outer;        /* the same worker's outer wait, in which a signal handler waits */
  struct gyre_interrupt *interrupt; /* raised when the fiber continues */
  bool foreign;                     /* not a pooled fiber */
  bool first;                       /* its fiber has just started another */
  VALUE blocker;                    /* for display; Qundef outside of a struct gyre_wait */
  enum gyre_parked_state state;
};

/* A pooled fiber and its job. */
struct gyre_worker {
  struct gyre_list node;               /* in scheduler->pool.busy or scheduler->pool.idle */
  struct gyre_blocked_node table_node; /* in scheduler->pool.workers */
  VALUE fiber;
  struct gyre_parked *parked;        /* wait of its fiber, or of a fiber that it resumed; NULL while running */
  VALUE (*function)(VALUE argument); /* NULL while idle */
  VALUE argument;
  VALUE storage;          /* initial fiber storage, or nil */
  bool once;              /* the fiber ends with its job */
  uintptr_t unused_below; /* address in its idle stack */
};

/* A fiber that runs turns until a condition holds. The newest drives, and checks overtaken drivers'
 * conditions. */
struct gyre_driving {
  struct gyre_driving *before;
  struct gyre_parked parked; /* RUNNING while it is the newest */
  bool (*done)(struct gyre_scheduler *, struct gyre_driving *);
  void *context;
  bool asked;   /* the condition was checked in this turn */
  bool overdue; /* began with a spent budget: asks the kernel first */
};

/* A block for another fiber to run when entered, before it waits again. */
struct gyre_question {
  VALUE asker, block, answer, error;
};

/* An exception to be raised in a fiber. */
struct gyre_interrupt {
  struct gyre_list node; /* in scheduler->interrupts.due, raising, postponed, deferred or held */
  VALUE fiber, exception;
  VALUE id;                   /* a collectable fiber's (gyre_live_fiber), or nil */
  struct gyre_parked *parked; /* the wait that raises it */
  struct gyre_timer retry;
  struct gyre_interrupt **owner;  /* the sender's, for gyre_interrupt_cancel; NULL when raised */
  struct gyre_interrupt **raiser; /* the driver's during Fiber#raise; NULL when raised */
};

struct gyre_waits {
  struct gyre_list parked, ready;
  struct gyre_list foreign; /* parked fibers outside the pool, to be marked */
  size_t parked_count, ready_count;
};

/* interrupts.c */
struct gyre_interrupts {
  struct gyre_list due;       /* in the next turn */
  struct gyre_list raising;   /* their fibers are ready */
  struct gyre_list postponed; /* until their fiber has run */
  struct gyre_list deferred;  /* until their timer fires */
  struct gyre_list held;      /* until their suspended fiber waits */
  struct gyre_list timeouts;  /* of scheduler_timeout.c, on the heap */
  bool is_away;               /* the driver is in Fiber#raise, where no question can run */
  VALUE live_fibers;          /* ObjectSpace::WeakMap: object_id => fiber (gyre_live_fiber); nil at first */
};

/* workers.c */
struct gyre_pool {
  struct gyre_list busy, idle;
  struct gyre_list left_behind;      /* fibers of this forked child's parent */
  struct gyre_blocked_table workers; /* all workers, by fiber */
  size_t busy_count, idle_count;
  size_t idle_least;  /* since the last trim */
  size_t freed_count; /* workers freed so far */
  struct gyre_timer trim;
  VALUE worker_block;           /* body of workers' fibers; nil at first */
  struct gyre_worker *starting; /* being entered for the first time */
};

/* drive.c */
struct gyre_drivers {
  struct gyre_driving *newest;
  size_t overtaken_count; /* parked drivers */
  VALUE fiber;            /* the newest driver's, or nil */
};

/* fibers.c */
struct gyre_running {
  VALUE entered;                  /* entered last, or nil; never dereferenced */
  struct gyre_worker *worker;     /* its worker, if pooled */
  struct gyre_question *question; /* for the fiber to enter */
};

/* Limits fibers' run until the kernel is asked. */
struct gyre_slice {
  uint64_t random;   /* generator for ready fibers; 0: in order */
  unsigned budget;   /* switches left until the kernel is asked */
  int64_t began_ns;  /* coarse time when the budget was filled */
  unsigned unwaited; /* calls without a wait */
  uint64_t switches; /* fibers entered from the queue */
};

/* scheduler_block.c */
struct gyre_blocks {
  struct gyre_blocked_table table; /* by fiber, for unblock */
  st_table *early;                 /* fiber => blocker of an unblock before the fiber parked; nearly always empty */
  st_table *signals;               /* fiber in ConditionVariable#wait => whether its mutex was unblocked */
};

/* wait.c: finds closed descriptors and deadlocks */
struct gyre_sweeping {
  struct gyre_list descriptor_waits;                      /* waits on descriptors that the program may close */
  void (*before_sleep)(struct gyre_scheduler *scheduler); /* before the loop waits */
  struct gyre_timer timer;
  uint64_t switches; /* at the last sweep */
  bool suspicious;   /* looks for deadlocks even if timers or descriptors may wake fibers */
};

struct gyre_scheduler {
  struct gyre_loop loop;
  VALUE self;
  VALUE thread; /* whose fibers it moves; nil at first */
  struct gyre_waits waits;
  struct gyre_interrupts interrupts;
  struct gyre_pool pool;
  struct gyre_drivers drivers;
  struct gyre_running running;
  struct gyre_slice slice;
  struct gyre_blocks blocks;
  struct gyre_sweeping sweeping;
  struct gyre_timer unwinding; /* limits stopped fibers at closing */
  struct gyre_list posts;      /* struct gyre_post for the next turn */
  struct gyre_list due_posts;  /* the rest of those of this turn */
  struct gyre_list keepers;    /* listening sockets, which keep `run` going */
  struct gyre_list clients;    /* C parts with objects to mark */
  bool closed;
  bool is_native; /* false: the portable engine */
};

/* Work for the loop's thread (gyre_post). */
struct gyre_post {
  struct gyre_list node; /* in scheduler->posts */
  void (*run)(struct gyre_scheduler *scheduler, struct gyre_post *post);
};

struct gyre_client {
  struct gyre_list node;
  bool due;       /* to be notified */
  unsigned forks; /* set by clients that compare it with gyre_forks; a daemon's becomes its own */
  VALUE self;     /* marked while it is in the list */
  void (*closing)(struct gyre_client *client); /* the loop will close */
  void (*forked)(struct gyre_client *client);  /* a child process reopened the loop */
  void (*moved)(struct gyre_client *client);   /* the same; or NULL */
};

extern VALUE gyre_cScheduler;

/* Skips the type check (25 instructions a hook): only the class allocates such objects. */
static inline struct gyre_scheduler *gyre_scheduler_get(VALUE self) { return RTYPEDDATA_DATA(self); }

/* Raises RuntimeError if it is closed. */
static inline struct gyre_scheduler *gyre_scheduler_opened(VALUE self) {
  struct gyre_scheduler *scheduler = gyre_scheduler_get(self);
  if (scheduler->closed) rb_raise(rb_eRuntimeError, "the scheduler is closed");
  return scheduler;
}

/* Forgets an unblock from before the fiber parked. */
static inline void gyre_forget_early(struct gyre_scheduler *scheduler, VALUE fiber) {
  st_data_t key = (st_data_t)fiber;
  if (scheduler->blocks.early && scheduler->blocks.early->num_entries)
    (void)st_delete(scheduler->blocks.early, &key, NULL);
}

/* scheduler_block.c */
void gyre_block_init(struct gyre_scheduler *scheduler);
void gyre_block_mark(struct gyre_scheduler *scheduler);
void gyre_block_free(struct gyre_scheduler *scheduler);
void gyre_block_forked(struct gyre_scheduler *scheduler);
/* Returns this thread's open native scheduler, or NULL. */
struct gyre_scheduler *gyre_scheduler_here(void);

/* Raises RuntimeError without one. */
struct gyre_scheduler *gyre_scheduler_current(void);

bool gyre_scheduler_is_native(VALUE object);

static inline struct gyre_scheduler *gyre_scheduler_of(struct gyre_loop *loop) {
  return GYRE_CONTAINER(loop, struct gyre_scheduler, loop);
}

/* Only a fiber's own thread can enter it. */
static inline bool gyre_thread_is_foreign(const struct gyre_scheduler *scheduler) {
  return !NIL_P(scheduler->thread) && scheduler->thread != rb_thread_current();
}

/* fibers.c, workers.c, interrupts.c, drive.c */
/* Binds the scheduler to this thread, or raises ThreadError. */
void gyre_thread_check(struct gyre_scheduler *scheduler);
void gyre_fibers_init(struct gyre_scheduler *scheduler);
void gyre_fibers_mark(struct gyre_scheduler *scheduler);
void gyre_fibers_forked(struct gyre_scheduler *scheduler);

/* Enters a fiber, and holds it meanwhile: Ruby reads it after the way back, when it may have ended
 * without another reference. */
VALUE gyre_transfer(VALUE fiber);
/* From here on gyre_wake may be called. */
void gyre_park_begin(struct gyre_scheduler *scheduler, struct gyre_parked *parked, VALUE blocker);
/* Leaves the fiber until it is woken; raises exceptions for it. */
void gyre_park(struct gyre_parked *parked);
/* Follows each gyre_park_begin (rb_ensure). */
void gyre_park_end(struct gyre_parked *parked);
/* The same for rb_ensure. */
VALUE gyre_park_ensure(VALUE parked);

/* Ignores a fiber that is ready already. */
void gyre_wake(struct gyre_scheduler *scheduler, struct gyre_parked *parked);

/* Has the driver run `post` at its next turn. Any thread with the GVL may post; a pending post is
 * ignored. */
void gyre_post(struct gyre_scheduler *scheduler, struct gyre_post *post);
/* The same from the loop's thread. */
static inline void gyre_post_here(struct gyre_scheduler *scheduler, struct gyre_post *post) {
  if (gyre_list_empty(&post->node)) gyre_list_append(&scheduler->posts, &post->node);
}
/* Called by a job that goes on as another one: drops what is sent to the fiber, and its locals and
 * storage if these are to be forgotten. */
void gyre_job_is_over(struct gyre_scheduler *scheduler, bool forget);
/* Called by a job that may wait for long: its fiber's unused stack, which others have used, is
 * returned to the kernel. */
void gyre_job_stays(struct gyre_scheduler *scheduler);

/* Lets other ready fibers run first. */
void gyre_yield(struct gyre_scheduler *scheduler);

/* True after some milliseconds without the kernel; false with a virtual clock or drawn order. */
static inline bool gyre_slice_is_over(const struct gyre_scheduler *scheduler) {
  if (scheduler->slice.random || scheduler->loop.virtual_ns) return false;
  int64_t now_ns = gyre_timers_coarse_now();
  return now_ns != scheduler->slice.began_ns && now_ns > scheduler->loop.now_ns;
}

/* After the slice, asks the kernel and lets others run; for calls that may never wait. May
 * raise. */
void gyre_yield_if_due(struct gyre_scheduler *scheduler);

/* True at every fourth call, as short calls do not read the clock. */
static inline bool gyre_clock_is_due(struct gyre_scheduler *scheduler) {
  return ++scheduler->slice.unwaited % GYRE_CLOCK_INTERVAL == 0;
}

/* Returns a copy of the present fiber's storage; nil before Ruby 3.2. */
VALUE gyre_present_storage(void);
/* Runs function(argument) in a pooled fiber up to its first wait. `storage`: initial fiber storage,
 * a Hash or nil. Returns the fiber. */
VALUE gyre_spawn(struct gyre_scheduler *scheduler, VALUE (*function)(VALUE), VALUE argument, VALUE storage);
/* Uses a new fiber, which ends with the job. `options`: of Fiber.new, or nil. */
VALUE gyre_spawn_once(struct gyre_scheduler *scheduler, VALUE (*function)(VALUE), VALUE argument, VALUE options);

/* Raises an exception in a fiber; nil ends it (Fiber#kill). Any thread may call it. Returns NULL if
 * the fiber's job is over. */
struct gyre_interrupt *gyre_interrupt_fiber(struct gyre_scheduler *scheduler, VALUE fiber, VALUE exception);

struct gyre_interrupt *gyre_interrupt_weakly(struct gyre_scheduler *scheduler, VALUE fiber, VALUE id, VALUE exception);

/* Weak references: a fiber's id, and an id's fiber (nil once collected). */
VALUE gyre_fiber_id(struct gyre_scheduler *scheduler, VALUE fiber);
VALUE gyre_live_fiber(struct gyre_scheduler *scheduler, VALUE id);

bool gyre_fiber_is_working(struct gyre_scheduler *scheduler, VALUE fiber);

/* True if a mutex calls unblock with this blocker. */
bool gyre_is_mutex(VALUE blocker);

/* No jobs follow. */
void gyre_workers_close(struct gyre_scheduler *scheduler);

/* True in a pooled fiber, which lives until its job ends. */
bool gyre_fiber_is_pooled(struct gyre_scheduler *scheduler);

/* Returns the wait of the fiber or of a fiber resumed by it; NULL if it runs or is suspended. */
struct gyre_parked *gyre_wait_of(struct gyre_scheduler *scheduler, VALUE fiber);

void gyre_interrupt_cancel(struct gyre_scheduler *scheduler, struct gyre_interrupt *interrupt);

/* Raises Gyre::Stop in all waits, then waits for their end. */
void gyre_unwind(struct gyre_scheduler *scheduler);

/* Runs turns until `done`; `driving` has its context. */
void gyre_drive(struct gyre_scheduler *scheduler, bool (*done)(struct gyre_scheduler *, struct gyre_driving *),
                void *context);
bool gyre_nothing_left(struct gyre_scheduler *scheduler, struct gyre_driving *driving);

/* wait.c */
struct gyre_wait {
  struct gyre_list descriptor_node;      /* in scheduler->sweeping.descriptor_waits */
  struct gyre_blocked_node blocked_node; /* in scheduler->blocks.table, if blocked */
  struct gyre_parked parked;
  struct gyre_timer timer;
  struct gyre_watch watch;
  unsigned ready; /* the watch's; 0 after a timeout */
  bool timed_out;
  bool unblocked; /* beats timed_out: the fiber keeps the gift */
  /* True if one of several descriptors is closed; NULL for other waits. */
  bool (*is_broken)(struct gyre_wait *wait);
};

/* `blocker` is only for display. */
void gyre_wait_begin(struct gyre_scheduler *scheduler, struct gyre_wait *wait, VALUE blocker);
/* Raises NoMemoryError and ends the wait. */
void gyre_wait_arm(struct gyre_wait *wait, int64_t timeout_ns);
/* Parks until the timer or a watch wakes the fiber. May be repeated; gyre_wait_end must follow
 * (rb_ensure). */
void gyre_wait_again(struct gyre_wait *wait);
void gyre_wait_end(struct gyre_wait *wait);
/* Parks, for rb_ensure; takes a struct gyre_wait. */
VALUE gyre_wait_body(VALUE wait);
/* Passes an unused wake-up to another waiter; false without one. */
bool gyre_hand_on(struct gyre_scheduler *scheduler, struct gyre_wait *wait);

/* Parks until `fd` is ready. Returns ready events, 0 after the timeout (negative: none), or
 * -errno. */
int gyre_wait_io(struct gyre_scheduler *scheduler, int fd, unsigned events, int64_t timeout_ns, VALUE blocker);

/* A scheduler->sweeping.before_sleep: arms the search for closed descriptors and deadlocks. */
void gyre_sweep(struct gyre_scheduler *scheduler);

/* Returns a child's pidfd (Linux 5.3), or -1. */
int gyre_child_descriptor(pid_t pid);
/* Reaps an ended child and returns its Process::Status; nil while it runs. */
VALUE gyre_child_status(VALUE pid, int flags);
/* Returns the Hash of Gyre::Loop#stats; the scheduler may be NULL. */
VALUE gyre_stats(const struct gyre_loop *loop, const struct gyre_scheduler *scheduler);
/* scheduler_timeout.c: the scheduler is gone. */
void gyre_timeouts_free(struct gyre_scheduler *scheduler);

/* Converts seconds (nil, Integer, Float, Rational) to nanoseconds; -1 for nil. Raises ArgumentError
 * if negative. */
int64_t gyre_duration_ns(VALUE duration);
