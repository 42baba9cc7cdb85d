/* The scheduler: fibers on a loop. fibers.c, workers.c, interrupts.c and drive.c move fibers,
 * wait.c parks them; scheduler*.c have Ruby's hooks.
 *
 * A waiting fiber has a `struct gyre_parked` on its stack. It enters the next ready fiber, or the
 * driver if none is ready. If no fiber drives the loop, it becomes the driver until it is woken.
 * Gyre moves fibers only by transfer; resume and yield are left to the program. */
#pragma once

#include "fiber/blocked.h"
#include "fiber/sight.h"
#include "loop/loop.h"

#include <ruby/st.h>

struct gyre_scheduler;

#define GYRE_READY_BUDGET 255        /* maximum fibers run between two calls of the kernel */
#define GYRE_CLOCK_INTERVAL 4        /* fibers run between two readings of the clock */
#define GYRE_IDLE_WORKERS_LIMIT 1024 /* maximum idle fibers kept for reuse */

enum gyre_parked_state { GYRE_PARKED, GYRE_READY, GYRE_RUNNING };

struct gyre_parked {
  struct gyre_scheduler *scheduler;
  struct gyre_list node;         /* in scheduler->waits.parked or scheduler->waits.ready */
  struct gyre_list foreign_node; /* in scheduler->waits.foreign, if foreign */
  VALUE fiber;
  VALUE entered;                    /* last fiber entered before the wait: `fiber` or its resumer */
  struct gyre_worker *worker;       /* worker of `entered`, or NULL */
  struct gyre_parked *outer;        /* in a signal handler: the worker's wait around this one */
  struct gyre_interrupt *interrupt; /* raised when the fiber continues */
  bool foreign;                     /* not a pooled fiber */
  bool first;                       /* goes first: it has started a fiber or is interrupted */
  VALUE blocker;                    /* the awaited object; Qundef outside of a struct gyre_wait */
  enum gyre_parked_state state;
};

/* A fiber and its job. The fiber is of the pool, or of Fiber.schedule (`once`). */
struct gyre_worker {
  struct gyre_list node;               /* in scheduler->pool.busy or scheduler->pool.idle */
  struct gyre_blocked_node table_node; /* in scheduler->pool.workers */
  VALUE fiber;
  struct gyre_parked *parked;        /* wait of `fiber` or of a fiber it resumed; NULL if none */
  VALUE (*function)(VALUE argument); /* NULL while idle */
  VALUE argument;
  VALUE storage;                      /* initial fiber storage, or nil */
  bool once;                          /* the fiber ends with its job */
  struct gyre_sight_account *account; /* is charged with the job; NULL: the loop's row */
  uintptr_t unused_below;             /* its idle stack is unused below this address */
};

/* A request to run the loop until a condition holds. The newest one drives, and checks the
 * conditions of the overtaken ones. */
struct gyre_driving {
  struct gyre_driving *before;
  struct gyre_parked parked; /* its state is RUNNING while this is the newest driver */
  bool (*done)(struct gyre_scheduler *, struct gyre_driving *);
  void *context;
  bool asked;   /* `done` was called in this turn */
  bool overdue; /* the budget was spent at the start: asks the kernel first */
};

/* A block to run in a waiting fiber: the fiber is entered, runs the block, and waits on. */
struct gyre_question {
  VALUE asker, block, answer, error;
};

/* An exception to be raised in a fiber. */
struct gyre_interrupt {
  struct gyre_list node; /* in scheduler->interrupts.due, raising, postponed, deferred or held */
  VALUE fiber, exception;
  VALUE id;                   /* gyre_fiber_id of a fiber that may be collected, or nil */
  struct gyre_parked *parked; /* the wait that raises it */
  struct gyre_timer retry;
  /* Where the sender points to this, or NULL. That pointer becomes NULL when this ends. */
  struct gyre_interrupt **owner;
  struct gyre_interrupt **raiser; /* where the driver points to this during Fiber#raise, or NULL */
};

struct gyre_waits {
  struct gyre_list parked, ready;
  struct gyre_list foreign; /* parked fibers outside the pool, which the collector must mark */
  size_t parked_count, ready_count;
};

/* interrupts.c */
struct gyre_interrupts {
  struct gyre_list due;       /* to be delivered in the next turn */
  struct gyre_list raising;   /* delivered: their fibers are ready, and will raise */
  struct gyre_list postponed; /* until their fiber has run */
  struct gyre_list deferred;  /* until their timer fires */
  struct gyre_list held;      /* until their suspended fiber waits */
  struct gyre_list timeouts;  /* timeouts on the heap (scheduler_timeout.c) */
  bool is_away;               /* the driver is in Fiber#raise, where it cannot answer questions */
  VALUE live_fibers;          /* ObjectSpace::WeakMap: object_id => fiber (gyre_live_fiber); nil at first */
};

/* workers.c */
struct gyre_pool {
  struct gyre_list busy, idle;
  struct gyre_list left_behind;      /* workers of a fork's parent or an ended thread */
  struct gyre_blocked_table workers; /* all workers, by fiber */
  size_t busy_count, idle_count;
  size_t idle_least;  /* fewest idle workers since the last trim */
  size_t freed_count; /* workers freed so far */
  struct gyre_timer trim;
  VALUE worker_block;           /* body of workers' fibers; nil at first */
  struct gyre_worker *starting; /* worker that is being entered for the first time */
  VALUE root; /* in a forked child the fiber that Ruby takes for the thread's root; not dereferenced */
};

/* drive.c */
struct gyre_drivers {
  struct gyre_driving *newest;
  size_t overtaken_count; /* parked drivers */
  VALUE fiber;            /* the newest driver's fiber, or nil */
};

/* fibers.c */
struct gyre_running {
  VALUE entered;                  /* fiber entered last, or nil; not marked, never dereferenced */
  struct gyre_worker *worker;     /* worker of `entered`, or NULL */
  struct gyre_question *question; /* for the fiber that is being entered, or NULL */
};

/* Limits how long fibers run before the kernel is asked. */
struct gyre_slice {
  uint64_t random;   /* state of the generator that draws ready fibers; 0: they run in order */
  unsigned budget;   /* switches left until the kernel is asked */
  int64_t began_ns;  /* coarse time when the budget was filled */
  unsigned unwaited; /* calls of gyre_clock_is_due */
  uint64_t switches; /* fibers entered from the ready queue so far */
};

/* scheduler_block.c */
struct gyre_blocks {
  struct gyre_blocked_table table; /* by fiber: the waits that an unblock may end */
  st_table *early;                 /* fiber => blocker of an early unblock; nearly always empty */
  st_table *signals;               /* fiber in ConditionVariable#wait => did a mutex unblock it? */
};

/* wait.c: finds closed descriptors and deadlocks */
struct gyre_sweeping {
  struct gyre_list descriptor_waits;                      /* waits on descriptors that the program may close */
  void (*before_sleep)(struct gyre_scheduler *scheduler); /* called before the loop sleeps */
  struct gyre_timer timer;
  uint64_t switches; /* slice.switches at the last sweep */
  bool suspicious;   /* looks for deadlocks even if timers or descriptors may wake fibers */
};

struct gyre_scheduler {
  struct gyre_loop loop;
  VALUE self;
  VALUE thread; /* thread of its fibers; nil at first */
  struct gyre_waits waits;
  struct gyre_interrupts interrupts;
  struct gyre_pool pool;
  struct gyre_drivers drivers;
  struct gyre_running running;
  struct gyre_slice slice;
  struct gyre_blocks blocks;
  struct gyre_sweeping sweeping;
  struct gyre_sight sight;
  struct gyre_timer unwinding; /* limits the time that stopped fibers have at the close */
  struct gyre_list posts;      /* posts (struct gyre_post) for the next turn */
  struct gyre_list due_posts;  /* posts of this turn that have not run yet */
  struct gyre_list keepers;    /* listening sockets, which keep `run` going */
  struct gyre_list clients;    /* struct gyre_client: objects to mark and notify */
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
  bool due;                                    /* to be notified */
  unsigned forks;                              /* gyre_forks that the client last saw */
  VALUE self;                                  /* marked while the client is in the list */
  void (*closing)(struct gyre_client *client); /* called before the loop closes */
  void (*forked)(struct gyre_client *client);  /* called in a child, after the loop was reopened */
  void (*moved)(struct gyre_client *client);   /* the same for a daemon; or NULL */
};

extern VALUE gyre_cScheduler;

/* `self` must be a Gyre::Scheduler: skips the type check, which costs 25 instructions per hook. */
static inline struct gyre_scheduler *gyre_scheduler_get(VALUE self) { return RTYPEDDATA_DATA(self); }

/* Raises RuntimeError if the scheduler is closed. */
static inline struct gyre_scheduler *gyre_scheduler_opened(VALUE self) {
  struct gyre_scheduler *scheduler = gyre_scheduler_get(self);
  if (scheduler->closed) rb_raise(rb_eRuntimeError, "the scheduler is closed");
  return scheduler;
}

/* Returns the account of the worker; without one the loop's, or NULL outside of the loop. */
static inline struct gyre_sight_account *gyre_sight_of(struct gyre_scheduler *scheduler,
                                                       const struct gyre_worker *worker) {
  if (worker && worker->account) return worker->account;
  return scheduler->drivers.newest ? &scheduler->sight.rows[GYRE_SIGHT_LOOP] : NULL;
}

/* Forgets an early unblock of the fiber. */
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

/* Like gyre_scheduler_here, but raises RuntimeError if there is none. */
struct gyre_scheduler *gyre_scheduler_current(void);

bool gyre_scheduler_is_native(VALUE object);

static inline struct gyre_scheduler *gyre_scheduler_of(struct gyre_loop *loop) {
  return GYRE_CONTAINER(loop, struct gyre_scheduler, loop);
}

/* True in a thread that cannot enter the scheduler's fibers. */
static inline bool gyre_thread_is_foreign(const struct gyre_scheduler *scheduler) {
  return !NIL_P(scheduler->thread) && scheduler->thread != rb_thread_current();
}

/* fibers.c, workers.c, interrupts.c, drive.c */
/* Binds the scheduler to this thread, or raises ThreadError. */
void gyre_thread_check(struct gyre_scheduler *scheduler);
void gyre_fibers_init(struct gyre_scheduler *scheduler);
void gyre_fibers_mark(struct gyre_scheduler *scheduler);
void gyre_fibers_forked(struct gyre_scheduler *scheduler);

/* Enters a fiber, and keeps it alive until the calling fiber runs again: Ruby then reads the
 * entered fiber, which may have no other reference. */
VALUE gyre_transfer(VALUE fiber);
/* Begins a wait: from here on gyre_wake may end it. */
void gyre_park_begin(struct gyre_scheduler *scheduler, struct gyre_parked *parked, VALUE blocker);
/* Leaves the fiber until it is woken. Raises the fiber's interrupt, if there is one. */
void gyre_park(struct gyre_parked *parked);
/* Ends a wait. Must follow each gyre_park_begin (rb_ensure). */
void gyre_park_end(struct gyre_parked *parked);
/* Calls gyre_park_end, for rb_ensure. */
VALUE gyre_park_ensure(VALUE parked);

/* Makes a parked fiber ready. Ignores a fiber that is not parked. */
void gyre_wake(struct gyre_scheduler *scheduler, struct gyre_parked *parked);

/* Makes the driver run `post` in its next turn. Ignores a pending post. Any thread with the GVL may
 * call it. */
void gyre_post(struct gyre_scheduler *scheduler, struct gyre_post *post);
/* Like gyre_post, but for the loop's thread, where the loop need not be woken. */
static inline void gyre_post_here(struct gyre_scheduler *scheduler, struct gyre_post *post) {
  if (gyre_list_empty(&post->node)) gyre_list_append(&scheduler->posts, &post->node);
}
/* Called by a job that continues as another job. Drops the fiber's interrupts and unblocks. */
void gyre_job_is_over(struct gyre_scheduler *scheduler);
/* Clears what the job has left in the current fiber: fiber-locals, storage and variables of the
 * Fiber object, where frameworks keep a request's state. `keys`: those of the locals, an Array;
 * `storage`: a Hash or nil. */
void gyre_forget(VALUE keys, VALUE storage);
/* Called by a job that may wait for long. Returns its stack's unused pages to the kernel. */
void gyre_job_stays(struct gyre_scheduler *scheduler);

/* Lets other ready fibers run first. */
void gyre_yield(struct gyre_scheduler *scheduler);

/* True if the kernel was not asked for some milliseconds; always false under Gyre::Testing. */
static inline bool gyre_slice_is_over(const struct gyre_scheduler *scheduler) {
  if (scheduler->slice.random || scheduler->loop.virtual_ns) return false;
  int64_t now_ns = gyre_timers_coarse_now();
  return now_ns != scheduler->slice.began_ns && now_ns > scheduler->loop.now_ns;
}

/* If the slice is over, asks the kernel and lets other fibers run. For calls that might never wait.
 * May raise. */
void gyre_yield_if_due(struct gyre_scheduler *scheduler);

/* True at every fourth call, so that short operations need not read the clock each time. */
static inline bool gyre_clock_is_due(struct gyre_scheduler *scheduler) {
  return ++scheduler->slice.unwaited % GYRE_CLOCK_INTERVAL == 0;
}

/* Returns a copy of the present fiber's storage; nil before Ruby 3.2. */
VALUE gyre_present_storage(void);
/* Runs function(argument) in a pooled fiber up to its first wait. `storage`: initial fiber storage,
 * a Hash or nil. Returns the fiber. */
VALUE gyre_spawn(struct gyre_scheduler *scheduler, VALUE (*function)(VALUE), VALUE argument, VALUE storage);
/* Like gyre_spawn, in a new fiber that ends with the job. `options`: for Fiber.new, or nil. */
VALUE gyre_spawn_once(struct gyre_scheduler *scheduler, VALUE (*function)(VALUE), VALUE argument, VALUE options);

/* Raises an exception in a fiber; nil ends the fiber (Fiber#kill). Any thread may call it. Returns
 * NULL if the fiber's job is over. */
struct gyre_interrupt *gyre_interrupt_fiber(struct gyre_scheduler *scheduler, VALUE fiber, VALUE exception);

struct gyre_interrupt *gyre_interrupt_weakly(struct gyre_scheduler *scheduler, VALUE fiber, VALUE id, VALUE exception);

/* Ids are weak references. Return a fiber's id, and the id's fiber (nil once it is collected). */
VALUE gyre_fiber_id(struct gyre_scheduler *scheduler, VALUE fiber);
VALUE gyre_live_fiber(struct gyre_scheduler *scheduler, VALUE id);

bool gyre_fiber_is_working(struct gyre_scheduler *scheduler, VALUE fiber);

/* True for a Mutex and for Ruby's internal mutexes. */
bool gyre_is_mutex(VALUE blocker);

/* Frees idle workers; no jobs may follow. */
void gyre_workers_close(struct gyre_scheduler *scheduler);

/* True if the current fiber is pooled, and so lives until its job ends. */
bool gyre_fiber_is_pooled(struct gyre_scheduler *scheduler);

/* Returns the wait of the fiber, or of a fiber that it has resumed; NULL if neither waits. */
struct gyre_parked *gyre_wait_of(struct gyre_scheduler *scheduler, VALUE fiber);

void gyre_interrupt_cancel(struct gyre_scheduler *scheduler, struct gyre_interrupt *interrupt);

/* Raises Gyre::Stop in all waiting fibers, and waits some seconds for their end. */
void gyre_unwind(struct gyre_scheduler *scheduler);

/* Runs turns until `done` returns true; driving->context is `context`. */
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
  unsigned ready; /* events reported by `watch`; 0 after a timeout */
  bool timed_out;
  bool unblocked; /* an unblock came: the fiber keeps its gift, even if timed_out */
  /* NULL, or (if the wait is for several descriptors) returns true if one of them is closed. */
  bool (*is_broken)(struct gyre_wait *wait);
};

/* `blocker` is the awaited object. */
void gyre_wait_begin(struct gyre_scheduler *scheduler, struct gyre_wait *wait, VALUE blocker);
/* Sets a timeout, unless it is negative. If memory is short, ends the wait and raises
 * NoMemoryError. */
void gyre_wait_arm(struct gyre_wait *wait, int64_t timeout_ns);
/* Parks until the timer or a watch wakes the fiber. May be repeated; gyre_wait_end must follow
 * (rb_ensure). */
void gyre_wait_again(struct gyre_wait *wait);
void gyre_wait_end(struct gyre_wait *wait);
/* Parks the fiber of a struct gyre_wait, for rb_ensure. */
VALUE gyre_wait_body(VALUE wait);
/* Passes a wake-up that the wait has not used to another waiter; false if no other waits. */
bool gyre_hand_on(struct gyre_scheduler *scheduler, struct gyre_wait *wait);

/* Parks until `fd` is ready. Returns ready events, 0 after the timeout, or -errno. A negative
 * timeout means none. */
int gyre_wait_io(struct gyre_scheduler *scheduler, int fd, unsigned events, int64_t timeout_ns, VALUE blocker);

/* sweeping.before_sleep: arms the timer of the search for closed descriptors and deadlocks. */
void gyre_sweep(struct gyre_scheduler *scheduler);

/* Returns a child's pidfd (Linux 5.3), or -1. */
int gyre_child_descriptor(pid_t pid);
/* Reaps an ended child and returns its Process::Status; nil while it runs. */
VALUE gyre_child_status(VALUE pid, int flags);
/* Returns the Hash of Gyre::Loop#stats; the scheduler may be NULL. */
VALUE gyre_stats(const struct gyre_loop *loop, const struct gyre_scheduler *scheduler);
/* scheduler_timeout.c: tells timeouts on the heap that the scheduler is freed. */
void gyre_timeouts_free(struct gyre_scheduler *scheduler);

/* Converts seconds (nil, Integer, Float, Rational) to nanoseconds; -1 for nil. Raises ArgumentError
 * if negative. */
int64_t gyre_duration_ns(VALUE duration);
