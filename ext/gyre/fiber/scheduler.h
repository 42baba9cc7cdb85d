/*
 * The scheduler: fibers on a loop. fibers.c, workers.c, interrupts.c and drive.c move them, wait.c
 * has what they wait by; scheduler*.c are Ruby's hooks on top, http1_*.c start a pooled fiber for
 * each request.
 *
 * A fiber that has to wait puts a `struct gyre_parked` on its own stack and parks. It goes straight
 * to the next ready fiber; if none is ready, to the fiber that drives the loop; if none drives it,
 * it drives the loop itself until it is woken. Fibers move by transfer, never by resume and yield:
 * those belong to the program.
 */
#ifndef GYRE_SCHEDULER_H
#define GYRE_SCHEDULER_H

#include "fiber/blocked.h"
#include "loop/loop.h"

#include <ruby.h>
#include <ruby/st.h>

struct gyre_scheduler;

#define GYRE_READY_BUDGET 255        /* fibers run between two questions to the kernel */
#define GYRE_CLOCK_INTERVAL 4        /* of these between two looks at the clock */
#define GYRE_IDLE_WORKERS_LIMIT 1024 /* finished fibers kept for reuse */

enum gyre_parked_state { GYRE_PARKED, GYRE_READY, GYRE_RUNNING };

struct gyre_parked {
  struct gyre_list node;         /* in scheduler->parked or scheduler->ready */
  struct gyre_list foreign_node; /* in scheduler->foreign, if it is foreign */
  VALUE fiber;
  VALUE entered;              /* the fiber that was entered last when it parked: itself, or the one that resumes it */
  struct gyre_worker *worker; /* of that fiber, if it is pooled */
  struct gyre_parked *outer;  /* an outer wait of the same worker: a signal's handler may wait in the middle of one */
  struct gyre_interrupt *interrupt; /* raised here as soon as the fiber goes on */
  bool foreign;                     /* its fiber is not one of the pool's */
  bool first;                       /* ready before all others: it has started another, and goes on */
  VALUE blocker;                    /* what it waits for, for display; Qundef when it is not in a struct gyre_wait */
  enum gyre_parked_state state;
};

/* A pooled fiber and what it does at the moment. */
struct gyre_worker {
  struct gyre_list node;               /* in scheduler->busy or scheduler->idle */
  struct gyre_blocked_node table_node; /* in scheduler->workers */
  VALUE fiber;
  struct gyre_parked *parked;        /* the wait of its fiber, or of a fiber that it resumes; NULL while it runs */
  VALUE (*function)(VALUE argument); /* NULL while idle */
  VALUE argument;
  VALUE storage;          /* fiber storage to begin with, or nil */
  bool once;              /* its fiber ends with its job */
  uintptr_t unused_below; /* while it is idle: an address in its stack */
};

/* A fiber that runs turns until something is true. The newest one does; one that was overtaken
 * waits, parked, and the newest asks on its behalf. */
struct gyre_driving {
  struct gyre_driving *before;
  struct gyre_parked parked; /* state RUNNING while it is the newest */
  bool (*done)(struct gyre_scheduler *, struct gyre_driving *);
  void *context;
  bool asked;   /* in this turn, whether it is done */
  bool overdue; /* it began because the budget was spent: the kernel is asked before its own fiber goes on */
};

/* Something to be found out in another fiber, which is entered for it and goes back to its own
 * wait. */
struct gyre_question {
  VALUE asker, block, answer, error;
};

/* An exception on its way into a fiber. */
struct gyre_interrupt {
  struct gyre_list node; /* in one of the scheduler's lists: interrupts, raising, postponed, deferred, held */
  VALUE fiber, exception;
  VALUE id;                   /* of a fiber that is not kept alive for it (gyre_live_fiber), or nil */
  struct gyre_parked *parked; /* the wait that raises it, once one is found */
  struct gyre_timer retry;
  struct gyre_interrupt **owner;  /* the owner's reference, for gyre_interrupt_cancel; cleared when it is raised */
  struct gyre_interrupt **raiser; /* that of the driver while it raises it by Fiber#raise; cleared as well */
};

struct gyre_scheduler {
  struct gyre_loop loop;
  VALUE self;
  VALUE thread; /* the one whose fibers it moves; nil before the first has waited */
  struct gyre_list parked, ready;
  struct gyre_list foreign;    /* of these, those to mark: workers keep their fibers themselves */
  struct gyre_list interrupts; /* to deliver in the next turn */
  struct gyre_list raising;    /* their fibers are ready and raise them */
  struct gyre_list postponed;  /* until their fiber has run */
  struct gyre_list deferred;   /* until their timer fires */
  struct gyre_list held;       /* until their fiber, which the program has suspended, waits */
  struct gyre_list timeouts;   /* those on the heap (scheduler_timeout.c) */
  bool is_away;                /* the driver has entered a fiber by Fiber#raise, and cannot be asked */
  VALUE live_fibers; /* ObjectSpace::WeakMap: object_id => fiber, for gyre_live_fiber; nil before its first use */
  size_t parked_count, ready_count;
  struct gyre_list busy, idle;
  struct gyre_list left_behind;      /* those whose fibers only the parent of this forked child has */
  struct gyre_blocked_table workers; /* busy and idle ones, by their fiber */
  size_t busy_count, idle_count;
  size_t idle_least;  /* since the pool was trimmed */
  size_t freed_count; /* workers that are no more */
  struct gyre_timer trim;
  VALUE worker_block;                /* the body of every worker's fiber, made once; nil before */
  struct gyre_worker *starting;      /* its fiber is entered for the first time */
  struct gyre_driving *driving;      /* the newest */
  size_t overtaken_count;            /* of the parked ones */
  VALUE driver;                      /* its fiber, or nil */
  VALUE entered;                     /* the fiber that was entered last, or nil; never dereferenced */
  struct gyre_worker *worker;        /* its worker, if it is pooled */
  struct gyre_question *question;    /* for the fiber that is entered next */
  uint64_t random;                   /* the state of what draws the next ready fiber; 0: they go in their order */
  unsigned budget;                   /* switches until the kernel is asked */
  int64_t slice_ns;                  /* the coarse time when the budget was filled */
  unsigned unwaited;                 /* calls that went on without a wait */
  struct gyre_blocked_table blocked; /* blocks by their fiber, for unblock */
  st_table *early;   /* fibers whose unblock came before they had parked => its blocker; nearly always empty */
  st_table *signals; /* fibers in ConditionVariable#wait => whether an unblock for a mutex has reached them */
  struct gyre_list descriptor_waits;                      /* struct gyre_wait: descriptors that the program may close */
  void (*before_sleep)(struct gyre_scheduler *scheduler); /* called when the loop is about to wait */
  struct gyre_timer sweep;
  struct gyre_timer unwinding;       /* ends the wait for what is stopped when it closes */
  uint64_t switches, swept_switches; /* fibers taken off the queue, in all and at the last sweep */
  struct gyre_list posts;            /* struct gyre_post: from other threads, for the next turn */
  struct gyre_list keepers;          /* things that keep `run` going: listening sockets */
  struct gyre_list clients;          /* struct gyre_client: C parts with Ruby objects to mark */
  bool closed, reset_storage;
  bool is_native;  /* was opened here; else it is the portable engine's */
  bool suspicious; /* looks for deadlocks also while something goes on */
};

/* Something to do in the loop's thread; see gyre_post. */
struct gyre_post {
  struct gyre_list node; /* in scheduler->posts */
  void (*run)(struct gyre_scheduler *scheduler, struct gyre_post *post);
};

/* A part in C that lives on a scheduler and holds Ruby objects. */
struct gyre_client {
  struct gyre_list node;
  bool due; /* it has not been notified yet */
  void (*mark)(struct gyre_client *client);
  void (*closing)(struct gyre_client *client); /* the loop is about to close */
  void (*forked)(struct gyre_client *client);  /* the loop was reopened in a child process */
  void (*moved)(struct gyre_client *client);   /* the loop goes on in a daemon; or NULL */
};

extern VALUE gyre_mGyre, gyre_cScheduler;

/* Not checked: only the class's own allocator makes its objects, and Ruby calls its methods for no
 * others. A check is 25 instructions in every hook. */
static inline struct gyre_scheduler *gyre_scheduler_get(VALUE self) { return RTYPEDDATA_DATA(self); }

/* The same; raises RuntimeError when it is closed. */
static inline struct gyre_scheduler *gyre_scheduler_opened(VALUE self) {
  struct gyre_scheduler *scheduler = gyre_scheduler_get(self);
  if (scheduler->closed) rb_raise(rb_eRuntimeError, "the scheduler is closed");
  return scheduler;
}

/* An unblock that came for the fiber before it parked is forgotten. */
static inline void gyre_forget_early(struct gyre_scheduler *scheduler, VALUE fiber) {
  st_data_t key = (st_data_t)fiber;
  if (scheduler->early && scheduler->early->num_entries) (void)st_delete(scheduler->early, &key, NULL);
}

/* scheduler_block.c */
void gyre_init_scheduler_block(void);
void gyre_block_init(struct gyre_scheduler *scheduler);
void gyre_block_mark(struct gyre_scheduler *scheduler);
void gyre_block_free(struct gyre_scheduler *scheduler);
void gyre_block_forked(struct gyre_scheduler *scheduler);
/* The native scheduler of this thread, open; or NULL. */
struct gyre_scheduler *gyre_scheduler_here(void);

/* The same; raises RuntimeError when there is none. */
struct gyre_scheduler *gyre_scheduler_current(void);

bool gyre_scheduler_is_native(VALUE object);

static inline struct gyre_scheduler *gyre_scheduler_of(struct gyre_loop *loop) {
  return GYRE_CONTAINER(loop, struct gyre_scheduler, loop);
}

/* Fibers can be entered in the thread that made them only, so this one must not take any off the
 * queue. */
static inline bool gyre_thread_is_foreign(const struct gyre_scheduler *scheduler) {
  return !NIL_P(scheduler->thread) && scheduler->thread != rb_thread_current();
}

/* fibers.c, workers.c, interrupts.c, drive.c */
/* Binds the scheduler to the present thread; raises ThreadError in another one. */
void gyre_thread_check(struct gyre_scheduler *scheduler);
void gyre_init_fibers(void);
void gyre_fibers_init(struct gyre_scheduler *scheduler);
void gyre_fibers_mark(struct gyre_scheduler *scheduler);
void gyre_fibers_free(struct gyre_scheduler *scheduler);
void gyre_fibers_forked(struct gyre_scheduler *scheduler);
size_t gyre_fibers_memory(const struct gyre_scheduler *scheduler);

/* Prepares a park of the current fiber; from here on gyre_wake may be called. */
void gyre_park_begin(struct gyre_scheduler *scheduler, struct gyre_parked *parked, VALUE blocker);
/* Leaves the current fiber until it has been woken. An exception sent to the fiber is raised
 * here. */
void gyre_park(struct gyre_scheduler *scheduler, struct gyre_parked *parked);
/* Has to run after each gyre_park_begin, whatever happened (rb_ensure). */
void gyre_park_end(struct gyre_scheduler *scheduler, struct gyre_parked *parked);

/* Makes a parked fiber ready; one that is ready already stays so. */
void gyre_wake(struct gyre_scheduler *scheduler, struct gyre_parked *parked);

/* From any thread that has the GVL: the driver runs it once, at the beginning of its next turn.
 * Nothing happens to a post that waits already. */
void gyre_post(struct gyre_scheduler *scheduler, struct gyre_post *post);

/* Requeues the current fiber at the end and lets the others run. */
void gyre_yield(struct gyre_scheduler *scheduler);

/* Whether the fiber has run for some milliseconds since the kernel was asked. Never where time
 * decides nothing: it is virtual, or the order is drawn. */
static inline bool gyre_slice_is_over(const struct gyre_scheduler *scheduler) {
  if (scheduler->random || scheduler->loop.virtual_ns) return false;
  int64_t now_ns = gyre_timers_coarse_now();
  return now_ns != scheduler->slice_ns && now_ns > scheduler->loop.now_ns;
}

/* Yields if the slice is over, and has the kernel asked: before what can go on without ever
 * waiting, for it may raise. */
void gyre_yield_if_due(struct gyre_scheduler *scheduler);

/* Of calls too short to look at the clock for each, such as a read: whether it is the turn of this
 * one. */
static inline bool gyre_clock_is_due(struct gyre_scheduler *scheduler) {
  return ++scheduler->unwaited % GYRE_CLOCK_INTERVAL == 0;
}

/* Runs function(argument) in a pooled fiber, at once up to its first wait. The caller goes on after
 * that. `storage` is the fiber storage that it begins with: a Hash or nil. Returns the fiber. */
VALUE gyre_spawn(struct gyre_scheduler *scheduler, VALUE (*function)(VALUE), VALUE argument, VALUE storage);
/* The same in a fiber of its own, which ends with the job and is never used again. `options` are
 * those of Fiber.new, or nil. */
VALUE gyre_spawn_once(struct gyre_scheduler *scheduler, VALUE (*function)(VALUE), VALUE argument, VALUE options);

/* Has the loop raise an exception in a fiber, from any thread; nil ends the fiber (Fiber#kill).
 * NULL: its job is over. */
struct gyre_interrupt *gyre_interrupt_fiber(struct gyre_scheduler *scheduler, VALUE fiber, VALUE exception);

/* The same for a fiber that may be collected meanwhile. */
struct gyre_interrupt *gyre_interrupt_weakly(struct gyre_scheduler *scheduler, VALUE fiber, VALUE id, VALUE exception);

/* For references that do not keep a fiber alive: its id, and the fiber that has an id, nil when it
 * has been collected. */
VALUE gyre_fiber_id(struct gyre_scheduler *scheduler, VALUE fiber);
VALUE gyre_live_fiber(struct gyre_scheduler *scheduler, VALUE id);

/* Whether the fiber has a job. */
bool gyre_fiber_is_working(struct gyre_scheduler *scheduler, VALUE fiber);
/* The parked fiber's block, if it was unblocked and has not gone on yet; or NULL. What it was given
 * (a lock, an element of a queue) would be lost if it were interrupted now. */
struct gyre_wait *gyre_given(struct gyre_scheduler *scheduler, const struct gyre_parked *parked);
/* Gives it to another fiber that waits for the same. Whether there is one. */
bool gyre_hand_on(struct gyre_scheduler *scheduler, struct gyre_wait *wait);

/* Whether an unblock for it is one for a mutex. */
bool gyre_is_mutex(VALUE blocker);

/* No job comes any more. */
void gyre_workers_close(struct gyre_scheduler *scheduler);

/* Whether the current fiber is pooled: then it is kept alive until its job has ended. */
bool gyre_fiber_is_pooled(struct gyre_scheduler *scheduler);

/* The present wait of the fiber, or of one that it resumes; NULL when it runs, or the program has
 * suspended it. */
struct gyre_parked *gyre_wait_of(struct gyre_scheduler *scheduler, VALUE fiber);

/* Takes it back and frees it. */
void gyre_interrupt_cancel(struct gyre_scheduler *scheduler, struct gyre_interrupt *interrupt);

/* Raises Gyre::Stop in all that waits, and gives it some time to clean up. */
void gyre_unwind(struct gyre_scheduler *scheduler);

/* Runs turns until done is true; the context is in the driving that it gets. */
void gyre_drive(struct gyre_scheduler *scheduler, bool (*done)(struct gyre_scheduler *, struct gyre_driving *),
                void *context);
bool gyre_nothing_left(struct gyre_scheduler *scheduler, struct gyre_driving *driving);

/* wait.c */
struct gyre_wait {
  struct gyre_scheduler *scheduler;
  struct gyre_list descriptor_node;      /* in scheduler->descriptor_waits */
  struct gyre_blocked_node blocked_node; /* in scheduler->blocked, when it is a block */
  struct gyre_parked parked;
  struct gyre_timer timer;
  struct gyre_watch watch;
  unsigned ready; /* what the watch reported; 0 after a timeout */
  bool timed_out;
  bool unblocked; /* wins over timed_out: whatever it was given is its own */
  /* For a wait for several descriptors: whether one of them is closed; else NULL. */
  bool (*is_broken)(struct gyre_wait *wait);
};

/* `blocker` is what is waited for: only shown. */
void gyre_wait_begin(struct gyre_scheduler *scheduler, struct gyre_wait *wait, VALUE blocker);
/* Raises NoMemoryError; then the wait has ended. */
void gyre_wait_arm(struct gyre_wait *wait, int64_t timeout_ns);
/* Parks until the wait's timer or a watch wakes it; also a second time. Run gyre_wait_end by
 * rb_ensure. */
void gyre_wait_again(struct gyre_wait *wait);
void gyre_wait_end(struct gyre_wait *wait);
/* Parks, for rb_ensure: the argument is a struct gyre_wait. */
VALUE gyre_wait_body(VALUE wait);

/* Parks until `fd` is ready for one of `events` or the time is over. Returns what is ready, 0 after
 * the time, or -errno. A negative timeout waits for ever. */
int gyre_wait_io(struct gyre_scheduler *scheduler, int fd, unsigned events, int64_t timeout_ns, VALUE blocker);

/* Hands the operation to the kernel and parks until it has ended. 0: its result is there, and it is
 * the caller's to free. -errno: it could not be handed over (-ENOSYS: do it another way), and is
 * freed; so it is when an exception ends the wait. */
int gyre_wait_operation(struct gyre_scheduler *scheduler, struct gyre_operation *operation, VALUE blocker);

/* For scheduler->before_sleep: looks soon whether waited-for descriptors were closed, or fibers
 * wait for each other. */
void gyre_sweep(struct gyre_scheduler *scheduler);

/* scheduler_read.c: reads in threads. Parks until a thread of Gyre::Offload has read; -1 for the
 * offset: where the file stands. Returns an object that has the bytes, and their count or
 * -errno. */
VALUE gyre_read_in_thread(VALUE io, int fd, off_t offset, size_t length);
ssize_t gyre_thread_read_result(VALUE read, const char **bytes);
/* Gives its memory back before the collector would. */
void gyre_thread_read_free(VALUE read);
void gyre_init_scheduler_read(void);

void gyre_init_wait(void);
void gyre_init_scheduler_process(void);
void gyre_init_scheduler_select(void);
void gyre_init_scheduler_inspection(void);
/* The Hash of Gyre::Loop#stats; the scheduler is NULL for a loop without fibers. */
VALUE gyre_stats(const struct gyre_loop *loop, const struct gyre_scheduler *scheduler);
/* scheduler_timeout.c: the timeouts that are left learn that the scheduler is gone. */
void gyre_timeouts_free(struct gyre_scheduler *scheduler);
void gyre_init_scheduler_timeout(void);
void gyre_init_scheduler_testing(void);
void gyre_init_scheduler_io(void);

/* A duration of Ruby (nil, Integer, Float, Rational) in nanoseconds; -1 for nil. Raises
 * ArgumentError for a negative one. */
int64_t gyre_duration_ns(VALUE duration);

#endif
