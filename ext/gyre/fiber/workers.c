/* The pool of fibers: making a fiber takes some microseconds, reusing one takes a tenth of that. A
 * job is a C function, and its exceptions are handled here. Nothing of a job (fiber-locals,
 * storage, unblocks, interrupts) reaches the fiber's next job.
 *
 * A fiber of Fiber.schedule ends with its job, because the program has the Fiber object, which must
 * not run another job. */
#include "fiber/fibers.h"
#include "fiber/stacks.h"
#include "loop/forks.h"

#include <ruby/thread.h>

#define IDLE_KEPT 16               /* idle workers that a trim leaves */
#define TRIM_NS INT64_C(500000000) /* idle time after which further workers are freed */
#define ENDED_LIMIT 4096           /* minimum ended fibers before a collection frees their stacks */
#define STACKS_LIMIT 24000         /* stacks that start a full collection; a process holds 30,000 */
#define CLEARED_BYTES 256          /* more than the frames of a transfer take */

static VALUE pooled_options, minor_options, fiber_class;
static VALUE blocking_key, storage_key;
static size_t machine_bytes, vm_bytes; /* sizes of a fiber's two stacks */
static bool has_storage;               /* Ruby has fiber storage */

static size_t stack_size(const char *name) {
  VALUE parameters = rb_const_get(rb_path2class("RubyVM"), rb_intern("DEFAULT_PARAMS"));
  return NUM2SIZET(rb_hash_fetch(parameters, ID2SYM(rb_intern(name))));
}

void gyre_init_workers(void) {
  machine_bytes = stack_size("fiber_machine_stack_size");
  vm_bytes = stack_size("fiber_vm_stack_size");
  fiber_class = rb_const_get(rb_cObject, rb_intern("Fiber"));
  blocking_key = ID2SYM(rb_intern("blocking"));
  storage_key = ID2SYM(rb_intern("storage"));
  pooled_options = gyre_kept(rb_hash_new()); /* kept at once: calls below may collect garbage */
  rb_hash_aset(pooled_options, blocking_key, Qfalse);
  /* A pooled fiber must not inherit the storage of the fiber that makes it. */
  has_storage = rb_method_boundp(fiber_class, rb_intern("storage"), 0);
  if (has_storage) rb_hash_aset(pooled_options, storage_key, Qnil);
  rb_obj_freeze(pooled_options);
  minor_options = gyre_kept(rb_hash_new());
  rb_hash_aset(minor_options, ID2SYM(rb_intern("full_mark")), Qfalse);
  rb_hash_aset(minor_options, ID2SYM(rb_intern("immediate_sweep")), Qfalse);
  rb_obj_freeze(minor_options);
}

void gyre_workers_init(struct gyre_scheduler *scheduler) {
  struct gyre_pool *pool = &scheduler->pool;
  *pool = (struct gyre_pool){.worker_block = Qnil, .root = Qundef};
  gyre_list_init(&pool->busy);
  gyre_list_init(&pool->idle);
  gyre_list_init(&pool->left_behind);
}

struct gyre_worker *gyre_worker_of(struct gyre_scheduler *scheduler, VALUE fiber) {
  struct gyre_blocked_node *node = gyre_blocked_find(&scheduler->pool.workers, fiber);
  return node ? GYRE_CONTAINER(node, struct gyre_worker, table_node) : NULL;
}

bool gyre_fiber_is_working(struct gyre_scheduler *scheduler, VALUE fiber) {
  struct gyre_worker *worker = gyre_worker_of(scheduler, fiber);
  return worker && worker->function;
}

bool gyre_fiber_is_pooled(struct gyre_scheduler *scheduler) {
  return scheduler->running.worker && scheduler->running.worker->fiber == rb_fiber_current();
}

static void free_worker(struct gyre_scheduler *scheduler, struct gyre_worker *worker) {
  gyre_list_remove(&worker->node);
  gyre_blocked_remove(&scheduler->pool.workers, &worker->table_node);
  if (scheduler->running.worker == worker) {
    scheduler->running.worker = NULL;
    scheduler->running.entered = Qnil;
  }
  scheduler->pool.freed_count++;
  gyre_sight_release(&scheduler->sight, worker->account);
  free(worker);
}

/* --- the size of the pool --- */

/* Releases idle stacks, whose fibers are suspended in wait_for_job. Skips a fiber that the program
 * has entered and that is suspended deeper, in a signal handler. */
static void discard_stacks(struct gyre_scheduler *scheduler) {
  uintptr_t addresses[GYRE_IDLE_WORKERS_LIMIT];
  size_t count = 0;
  GYRE_EACH(const struct gyre_worker, worker, &scheduler->pool.idle, node) {
    if (!worker->parked) addresses[count++] = worker->unused_below;
  }
  gyre_stacks_discard(addresses, count, machine_bytes, vm_bytes);
}

/* Frees workers that were idle since the last trim. The collector frees their fibers. */
static void trim(struct gyre_timer *timer, void *context) {
  struct gyre_scheduler *scheduler = gyre_scheduler_of(context);
  if (scheduler->pool.idle_least > IDLE_KEPT) discard_stacks(scheduler);
  for (; scheduler->pool.idle_least > IDLE_KEPT; scheduler->pool.idle_least--) {
    scheduler->pool.idle_count--;
    free_worker(scheduler, GYRE_CONTAINER(scheduler->pool.idle.previous, struct gyre_worker, node));
  }
  scheduler->pool.idle_least = scheduler->pool.idle_count;
  timer->fire = trim;
  if (scheduler->pool.idle_count > IDLE_KEPT) /* if the timer cannot be armed, all workers stay */
    (void)gyre_timers_arm(&scheduler->loop.timers, timer, gyre_loop_now(&scheduler->loop) + TRIM_NS);
}

static void become_idle(struct gyre_scheduler *scheduler, struct gyre_worker *worker) {
  struct gyre_pool *pool = &scheduler->pool;
  gyre_list_prepend(&pool->idle, &worker->node);
  pool->idle_count++;
  if (pool->idle_count <= IDLE_KEPT || gyre_timer_armed(&pool->trim) || scheduler->loop.virtual_ns) return;
  pool->idle_least = 0;
  trim(&pool->trim, &scheduler->loop);
}

static void idle_no_more(struct gyre_scheduler *scheduler, struct gyre_worker *worker) {
  gyre_list_remove(&worker->node);
  scheduler->pool.idle_count--;
  if (scheduler->pool.idle_count < scheduler->pool.idle_least) scheduler->pool.idle_least = scheduler->pool.idle_count;
}

VALUE gyre_present_storage(void) {
  return has_storage ? rb_funcall(rb_fiber_current(), rb_intern("storage"), 0) : Qnil;
}

static int forget_variable(ID name, VALUE value, st_data_t fiber) {
  if (!NIL_P(value)) rb_ivar_set((VALUE)fiber, name, Qnil);
  return ST_CONTINUE;
}

void gyre_forget(VALUE keys, VALUE storage) {
  VALUE self = rb_fiber_current(), thread = rb_thread_current();
  if (rb_ivar_count(self)) rb_ivar_foreach(self, forget_variable, (st_data_t)self);
  for (long i = 0; i < RARRAY_LEN(keys); i++) {
    rb_thread_local_aset(thread, rb_to_id(RARRAY_AREF(keys, i)), Qnil);
  }
  if (RB_TYPE_P(storage, T_HASH) && RHASH_SIZE(storage) > 0) {
    VALUE names = rb_funcall(storage, rb_intern("keys"), 0);
    for (long i = 0; i < RARRAY_LEN(names); i++) {
      rb_funcall(fiber_class, rb_intern("[]="), 2, RARRAY_AREF(names, i), Qnil);
    }
  }
}

static void forget_state(void) {
  VALUE keys = rb_funcall(rb_thread_current(), rb_intern("keys"), 0);
  gyre_forget(keys, gyre_present_storage());
}

/* Runs the job and forgets its state, unless the job fails. */
static VALUE run_job(VALUE argument) {
  struct gyre_worker *worker = (struct gyre_worker *)argument;
  if (RB_TYPE_P(worker->storage, T_HASH) && RHASH_SIZE(worker->storage) > 0) {
    VALUE keys = rb_funcall(worker->storage, rb_intern("keys"), 0);
    for (long i = 0; i < RARRAY_LEN(keys); i++) {
      VALUE key = RARRAY_AREF(keys, i);
      rb_funcall(fiber_class, rb_intern("[]="), 2, key, rb_hash_aref(worker->storage, key));
    }
  }
  worker->function(worker->argument);
  forget_state();
  return Qnil;
}

static VALUE forget_job(VALUE nothing) {
  forget_state();
  return Qnil;
}

void gyre_job_is_over(struct gyre_scheduler *scheduler) {
  VALUE fiber = rb_fiber_current();
  gyre_interrupts_drop(scheduler, fiber);
  gyre_forget_early(scheduler, fiber);
}

void gyre_job_stays(struct gyre_scheduler *scheduler) {
  if (gyre_fiber_is_pooled(scheduler)) gyre_stack_discard(scheduler->running.worker->unused_below, machine_bytes);
}

static VALUE report_error(VALUE argument) {
  struct gyre_scheduler *scheduler = (struct gyre_scheduler *)argument;
  VALUE error = rb_errinfo();
  rb_set_errinfo(Qnil);
  if (rb_obj_is_kind_of(error, rb_const_get(gyre_mGyre, rb_intern("Stop")))) return Qnil; /* was asked to end */
  return rb_funcall(scheduler->self, rb_intern("fiber_failed"), 2, error, rb_fiber_current());
}

/* False for exceptions that end the program or thread. */
static bool reportable(void) {
  VALUE error = rb_errinfo();
  return rb_obj_is_kind_of(error, rb_eException) && !rb_obj_is_kind_of(error, rb_eSystemExit) &&
         !rb_obj_is_kind_of(error, rb_eSignal);
}

/* Drops the ended job's interrupts and unblocks. */
static void release(struct gyre_scheduler *scheduler, struct gyre_worker *worker) {
  gyre_list_remove(&worker->node);
  scheduler->pool.busy_count--;
  gyre_interrupts_drop(scheduler, worker->fiber);
  gyre_forget_early(scheduler, worker->fiber);
  gyre_sight_job_is_over(scheduler, worker);
}

/* An idle worker's wait. The pool may free the worker meanwhile, and the program may enter its
 * fiber (Fiber#raise). */
struct rest {
  struct gyre_scheduler *scheduler;
  struct gyre_worker *worker;
  VALUE fiber;
  size_t freed_count; /* pool.freed_count when the wait began */
  bool over;          /* the worker was freed */
};

static bool is_given_up(const struct rest *rest) {
  return gyre_worker_of(rest->scheduler, rest->fiber) != rest->worker;
}

/* Clears the stack where the frames of a transfer will lie. Otherwise these show values of the
 * ended job to the collector, which keeps its task while the worker is idle. */
__attribute__((noinline)) static void clear_stack(void) {
  typedef uint64_t two __attribute__((vector_size(16)));
  volatile two below[CLEARED_BYTES / sizeof(two)]; /* single stores, because GCC's memset costs 20 ns */
  for (size_t i = 0; i < sizeof(below) / sizeof(*below); i++) below[i] = (two){0, 0};
}

/* Waits for a job. Returns early if the program has entered this fiber (Fiber#raise) and there is
 * no fiber to enter: this fiber then ends, and Ruby continues in the thread's root fiber. */
static VALUE wait_for_job(VALUE argument) {
  struct rest *rest = (struct rest *)argument;
  rest->worker->unused_below = (uintptr_t)__builtin_frame_address(0);
  do {
    VALUE next = gyre_ready_next(rest->scheduler);
    if (NIL_P(next)) next = gyre_ready_take(rest->scheduler);
    if (NIL_P(next)) break;
    clear_stack();
    gyre_transfer(next);
    rest->over = rest->scheduler->pool.freed_count != rest->freed_count && is_given_up(rest);
  } while (!rest->over && !rest->worker->function);
  return Qnil;
}

/* --- stacks ---
 *
 * In Ruby 3.1 and 3.4 all Ractors take stacks from one pool without a lock, and two at once crash.
 * So only one Ractor at a time enters a new worker's fiber. A taken lock has the value gyre_forks +
 * 1, by which a forked child recognizes an inherited one. */

static unsigned stacks_owner; /* atomic; 0: not taken */

/* Lets Ruby stop this Ractor meanwhile: the lock's owner may be collecting garbage. */
static void stacks_take(void) {
  unsigned me = gyre_forks + 1, before = 0;
  while (!__atomic_compare_exchange_n(&stacks_owner, &before, me, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
    if (before != me) continue;
    rb_thread_schedule();
    before = 0;
  }
}

static void stacks_give_back(void) { __atomic_store_n(&stacks_owner, 0, __ATOMIC_RELEASE); }

/* Ruby keeps an ended fiber's stack until it collects the fiber, and does not count stacks as
 * memory. Starts a collection when as many fibers have ended as are alive, because each collection
 * reads all live stacks. Counting by rb_gc_adjust_memory_usage would collect too often. A minor
 * collection keeps fibers that old objects refer to, so a full one follows when these may be many.
 * Counts are atomic. */
static size_t ended_count; /* fibers ended since the last collection */
static size_t left_count;  /* fibers that ended earlier, but after the last full collection */

static void note_collection(void) {
  size_t ended = __atomic_exchange_n(&ended_count, 0, __ATOMIC_RELAXED);
  (void)__atomic_add_fetch(&left_count, ended, __ATOMIC_RELAXED);
}

static void collect_stacks(const struct gyre_scheduler *scheduler) {
  size_t ended = __atomic_load_n(&ended_count, __ATOMIC_RELAXED), live = scheduler->pool.busy_count;
  if (ended < ENDED_LIMIT) return;
  bool full = ended + __atomic_load_n(&left_count, __ATOMIC_RELAXED) + live >= STACKS_LIMIT;
  if (ended < live && !full) return;
  if (RTEST(rb_gc_disable())) return; /* disabled by the program */
  rb_gc_enable();
  if (full) {
    rb_gc_start();
    __atomic_store_n(&left_count, 0, __ATOMIC_RELAXED);
  } else {
    rb_funcallv_kw(rb_mGC, rb_intern("start"), 1, &minor_options, RB_PASS_KEYWORDS);
  }
}

static VALUE enter_fiber(VALUE fiber) { return gyre_transfer(fiber); }

/* Ends the worker's fiber. Ruby continues in the thread's root fiber and raises the exception
 * there. A forked child ends with its root fiber, and no other fiber can be entered then; so the
 * root lets the driver run, and raise the exception, for as long as there is one. */
static VALUE end_fiber(struct gyre_scheduler *scheduler, int state) {
  VALUE next = Qnil;
  while (rb_fiber_current() == scheduler->pool.root && !scheduler->closed) {
    if (state && rb_obj_is_kind_of(rb_errinfo(), rb_eException) && !NIL_P(scheduler->drivers.fiber)) {
      gyre_interrupt_fiber(scheduler, scheduler->drivers.fiber, rb_errinfo());
      rb_set_errinfo(Qnil);
      state = 0;
    }
    next = state ? Qnil : gyre_ready_next(scheduler);
    if (NIL_P(next)) break;
    rb_protect(enter_fiber, next, &state);
  }
  if (state) rb_jump_tag(state);
  return Qnil;
}

static VALUE worker_main(RB_BLOCK_CALL_FUNC_ARGLIST(yielded, self)) {
  stacks_give_back();
  struct gyre_scheduler *scheduler = gyre_scheduler_get(self);
  struct gyre_worker *worker = scheduler->pool.starting;
  scheduler->pool.starting = NULL;
  worker->unused_below = (uintptr_t)__builtin_frame_address(0);

  for (;;) {
    int state = 0;
    rb_protect(run_job, (VALUE)worker, &state);
    bool failed = state;
    worker->function = NULL;
    worker->argument = worker->storage = Qnil;
    if (state && reportable()) {
      rb_protect(report_error, (VALUE)scheduler, &state);
      if (state && reportable()) {
        rb_set_errinfo(Qnil);
        state = 0;
      }
    }
    bool stays = !worker->once && scheduler->pool.idle_count < GYRE_IDLE_WORKERS_LIMIT && !scheduler->closed;
    if (!state && stays && failed) rb_protect(forget_job, Qnil, &state);

    release(scheduler, worker);
    if (worker->once) (void)__atomic_add_fetch(&ended_count, 1, __ATOMIC_RELAXED);
    if (state || !stays) {
      free_worker(scheduler, worker);
      return end_fiber(scheduler, state);
    }
    become_idle(scheduler, worker);

    struct rest rest = {
        .scheduler = scheduler, .worker = worker, .fiber = worker->fiber, .freed_count = scheduler->pool.freed_count};
    do {
      /* Drops the ended job's exception. */
      rb_set_errinfo(Qnil);
      rb_protect(wait_for_job, (VALUE)&rest, &state);
      if (!(state ? is_given_up(&rest) : rest.over)) continue;
      if (state && !reportable()) return end_fiber(scheduler, state);
      rb_set_errinfo(Qnil);
      return end_fiber(scheduler, 0);
    } while (state && reportable() && !worker->function);
    if (state || !worker->function) {
      if (worker->function) {
        scheduler->pool.busy_count--;
      } else {
        idle_no_more(scheduler, worker);
      }
      free_worker(scheduler, worker);
      return end_fiber(scheduler, state);
    }
  }
}

static struct gyre_worker *new_worker(struct gyre_scheduler *scheduler, VALUE options, bool once) {
  if (NIL_P(scheduler->pool.worker_block)) scheduler->pool.worker_block = rb_proc_new(worker_main, scheduler->self);
  VALUE class = once ? fiber_class : rb_const_get(gyre_cScheduler, rb_intern("PooledFiber"));
  VALUE fiber = NIL_P(options) ? rb_funcall_with_block(class, rb_intern("new"), 0, NULL, scheduler->pool.worker_block)
                               : rb_funcall_with_block_kw(class, rb_intern("new"), 1, &options,
                                                          scheduler->pool.worker_block, RB_PASS_KEYWORDS);
  struct gyre_worker *worker = calloc(1, sizeof(*worker));
  if (!worker) rb_memerror();
  gyre_list_init(&worker->node);
  worker->fiber = fiber;
  worker->once = once;
  worker->storage = Qnil;
  gyre_blocked_add(&scheduler->pool.workers, &worker->table_node, fiber);
  scheduler->pool.starting = worker;
  return worker;
}

static struct gyre_worker *acquire(struct gyre_scheduler *scheduler) {
  GYRE_EACH_FIRST(struct gyre_worker, worker, &scheduler->pool.idle, node) {
    idle_no_more(scheduler, worker);
    if (RTEST(rb_fiber_alive_p(worker->fiber))) return worker;
    free_worker(scheduler, worker);
  }
  return new_worker(scheduler, pooled_options, false);
}

struct entering {
  struct gyre_scheduler *scheduler;
  struct gyre_worker *worker;
  bool stacks_taken;
};

static VALUE enter_body(VALUE argument) {
  struct entering *entering = (struct entering *)argument;
  stacks_take();
  entering->stacks_taken = true;
  entering->scheduler->pool.starting =
      entering->worker; /* a signal handler may have started another job during the wait for stacks */
  gyre_enter(entering->scheduler, entering->worker->fiber);
  return Qnil;
}

/* Enters the worker's fiber. Entering a new fiber fails if no memory or memory map is left. */
static void enter(struct gyre_scheduler *scheduler, struct gyre_worker *worker, VALUE fiber) {
  if (scheduler->pool.starting != worker) {
    gyre_enter(scheduler, fiber);
    return;
  }
  int state = 0;
  struct entering entering = {.scheduler = scheduler, .worker = worker};
  rb_protect(enter_body, (VALUE)&entering, &state);
  if (!state) return;
  if (scheduler->pool.starting == worker) {
    if (entering.stacks_taken) stacks_give_back();
    scheduler->pool.starting = NULL;
    scheduler->pool.busy_count--;
    free_worker(scheduler, worker);
  }
  rb_jump_tag(state);
}

struct spawning {
  struct gyre_worker *worker;
  struct gyre_parked parked;
  VALUE fiber;
};

static VALUE spawn_body(VALUE argument) {
  struct spawning *spawning = (struct spawning *)argument;
  enter(spawning->parked.scheduler, spawning->worker, spawning->fiber);
  gyre_park(&spawning->parked);
  return Qnil;
}

/* Gives the worker its job and enters its fiber. Returns the fiber. */
static VALUE start(struct gyre_scheduler *scheduler, struct gyre_worker *worker, VALUE (*function)(VALUE),
                   VALUE argument) {
  worker->function = function;
  worker->argument = argument;
  gyre_list_append(&scheduler->pool.busy, &worker->node);
  scheduler->pool.busy_count++;

  VALUE fiber = worker->fiber;
  gyre_forget_early(scheduler, fiber); /* left over from its last job */
  if (rb_fiber_current() == scheduler->drivers.fiber) {
    /* Does not queue the driver: a fiber that waits returns to it if no other is ready. */
    scheduler->running.entered = fiber;
    scheduler->running.worker = worker;
    gyre_sight_switch(&scheduler->sight, gyre_sight_of(scheduler, worker));
    enter(scheduler, worker, fiber);
    gyre_sight_switch(&scheduler->sight, &scheduler->sight.rows[GYRE_SIGHT_LOOP]);
  } else {
    struct spawning spawning = {.worker = worker, .fiber = fiber};
    gyre_park_begin(scheduler, &spawning.parked, Qundef);
    gyre_parked_make_ready(scheduler, &spawning.parked, true);
    scheduler->running.entered = fiber;
    scheduler->running.worker = worker;
    gyre_sight_switch(&scheduler->sight, gyre_sight_of(scheduler, worker));
    rb_ensure(spawn_body, (VALUE)&spawning, gyre_park_ensure, (VALUE)&spawning.parked);
  }
  return fiber;
}

VALUE gyre_spawn(struct gyre_scheduler *scheduler, VALUE (*function)(VALUE), VALUE argument, VALUE storage) {
  gyre_thread_check(scheduler);
  struct gyre_sight_account *account = gyre_sight_account_for(scheduler, argument);
  struct gyre_worker *worker = acquire(scheduler);
  worker->storage = storage;
  gyre_sight_assign(scheduler, worker, account);
  return start(scheduler, worker, function, argument);
}

VALUE gyre_spawn_once(struct gyre_scheduler *scheduler, VALUE (*function)(VALUE), VALUE argument, VALUE options) {
  gyre_thread_check(scheduler);
  collect_stacks(scheduler);
  struct gyre_sight_account *account = gyre_sight_account_for(scheduler, argument);
  struct gyre_worker *worker = new_worker(scheduler, options, true);
  gyre_sight_assign(scheduler, worker, account);
  return start(scheduler, worker, function, argument);
}

static void mark_workers(struct gyre_list *list, bool busy) {
  GYRE_EACH(struct gyre_worker, worker, list, node) {
    rb_gc_mark(worker->fiber);
    if (!busy) continue;
    GYRE_MARK(worker->argument, worker->storage, worker->account ? worker->account->label : Qnil);
  }
}

void gyre_workers_mark(struct gyre_scheduler *scheduler) {
  if (rb_during_gc()) note_collection();
  rb_gc_mark(scheduler->pool.worker_block);
  mark_workers(&scheduler->pool.busy, true);
  mark_workers(&scheduler->pool.idle, false);
}

static void free_workers(struct gyre_scheduler *scheduler, struct gyre_list *list) {
  while (!gyre_list_empty(list)) free_worker(scheduler, GYRE_CONTAINER(list->next, struct gyre_worker, node));
}

/* Lets the collector free idle fibers even if the program keeps the scheduler. */
void gyre_workers_close(struct gyre_scheduler *scheduler) {
  free_workers(scheduler, &scheduler->pool.idle);
  scheduler->pool.idle_count = scheduler->pool.idle_least = 0;
}

void gyre_workers_free(struct gyre_scheduler *scheduler) {
  if (!scheduler->pool.workers.buckets) return; /* never initialized */
  free_workers(scheduler, &scheduler->pool.busy);
  free_workers(scheduler, &scheduler->pool.idle);
  free_workers(scheduler, &scheduler->pool.left_behind);
  gyre_blocked_free(&scheduler->pool.workers);
}

/* In a forked child, keeps the forking fiber's worker. Lists the others instead of freeing them,
 * because waits on their stacks may refer to them. */
void gyre_workers_forked(struct gyre_scheduler *scheduler) {
  gyre_workers_close(scheduler);
  GYRE_EACH(struct gyre_worker, worker, &scheduler->pool.busy, node) {
    if (worker == scheduler->running.worker) continue;
    gyre_list_remove(&worker->node);
    gyre_blocked_remove(&scheduler->pool.workers, &worker->table_node);
    gyre_list_append(&scheduler->pool.left_behind, &worker->node);
    scheduler->pool.busy_count--;
  }
  if (scheduler->running.worker) scheduler->running.worker->parked = NULL;
}
