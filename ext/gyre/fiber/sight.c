/* Charges stretches to requests and tasks (sight.h), and reports the rows to Gyre::Loop.usage. */
#include "fiber/fibers.h"

#define LONG_NS 100000   /* longer stretches are corrected */
#define SLEPT_NS 1000000 /* sleeps after which the CPU clock is read */
#define CALIBRATED_NS 1000000
#define BUSY_NS 100000000 /* CPU of a running request from which on a report finds its row */
#define ROWS_OF_PATHS 150 /* the rest is for routes that frameworks name */
#define LABEL_BYTES_LIMIT 250

VALUE (*gyre_sight_route)(VALUE env), (*gyre_sight_route_source)(VALUE env), (*gyre_sight_route_name)(VALUE source);
static VALUE total_allocated;
static ID id_name, id_block, id_source_location;

/* --- clocks --- */

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <x86intrin.h>
static bool invariant; /* the counter's rate is constant */

static inline uint64_t read_ticks(void) {
  return __builtin_expect(invariant, 1) ? __rdtsc() : (uint64_t)gyre_clock_ns(CLOCK_MONOTONIC);
}

static void find_counter(void) {
  unsigned a, b, c, d;
  invariant = __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1u << 8);
}
#elif defined(__aarch64__) && defined(__GNUC__)
static inline uint64_t read_ticks(void) {
  uint64_t ticks;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
}
static void find_counter(void) {}
#else
static inline uint64_t read_ticks(void) { return (uint64_t)gyre_clock_ns(CLOCK_MONOTONIC); }
static void find_counter(void) {}
#endif

static double ns_per_tick; /* 0: not calibrated */
static uint64_t long_ticks, first_ticks;
static int64_t first_ns;

/* Reads both clocks at the same time: the closest of several readings, as another program may run
 * between two. */
static void read_both(int64_t *now_ns, uint64_t *ticks) {
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < 8; i++) {
    uint64_t before = read_ticks();
    int64_t read = gyre_clock_ns(CLOCK_MONOTONIC);
    uint64_t took = read_ticks() - before;
    if (took >= least) continue;
    least = took;
    *now_ns = read;
    *ticks = before + took / 2;
  }
}

/* Measures the counter since the extension was loaded; waits if that is less than a millisecond. */
static void calibrate(void) {
  int64_t now_ns = first_ns;
  uint64_t ticks = first_ticks;
  while (now_ns - first_ns < CALIBRATED_NS) read_both(&now_ns, &ticks);
  ns_per_tick = (double)(now_ns - first_ns) / (double)(ticks - first_ticks);
  long_ticks = (uint64_t)(LONG_NS / ns_per_tick);
}

/* --- stretches --- */

static void read_thread_clock(struct gyre_sight *sight) {
  sight->cpu_ns = gyre_clock_ns(CLOCK_THREAD_CPUTIME_ID);
  sight->short_ticks = sight->slept_ticks = 0;
}

/* Returns how much of a long time the thread had the processor: the advance of its CPU clock,
 * without the short stretches since it was last read. */
static uint64_t correct(struct gyre_sight *sight, uint64_t ticks) {
  int64_t before_ns = sight->cpu_ns;
  uint64_t short_ticks = sight->short_ticks;
  read_thread_clock(sight);
  double own = (double)(sight->cpu_ns - before_ns) / ns_per_tick - (double)short_ticks;
  return own < 0 ? 0 : own < (double)ticks ? (uint64_t)own : ticks;
}

static uint64_t take_allocated(struct gyre_sight *sight) {
  uint64_t before = sight->allocated;
  sight->allocated = rb_gc_stat(total_allocated);
  sight->counted_ticks = sight->since;
  return sight->allocated - before;
}

/* Returns the time since the stretch's beginning, and begins another one. */
static uint64_t take_ticks(struct gyre_sight *sight) {
  uint64_t now = read_ticks(), ticks = now - sight->since;
  sight->since = now;
  return (int64_t)ticks < 0 ? 0 : ticks; /* another processor's counter may be behind */
}

/* Counting objects takes as long as four readings of the counter, so objects are counted only each
 * 20 µs: short stretches share them by chance. `counts`: now. */
static void charge(struct gyre_sight *sight, bool counts) {
  struct gyre_sight_account *account = sight->owner->row ? sight->owner->row : sight->owner;
  uint64_t ticks = take_ticks(sight);
  if (counts || sight->since - sight->counted_ticks > long_ticks / 5) account->allocated += take_allocated(sight);
  if (ticks > account->longest) account->longest = ticks;
  if (__builtin_expect(ticks > long_ticks, 0)) {
    uint64_t own = correct(sight, ticks);
    account->blocked += ticks - own;
    ticks = own;
  } else {
    sight->short_ticks += ticks;
  }
  account->ticks += ticks;
}

void gyre_sight_leave(struct gyre_sight *sight) {
  sight->owner = NULL;
  sight->threads_ns = INT64_MAX;
}

void gyre_sight_change(struct gyre_sight *sight, struct gyre_sight_account *to) {
  if (sight->owner) {
    charge(sight, !to);
  } else {
    read_thread_clock(sight);
    (void)take_ticks(sight);
    (void)take_allocated(sight);
  }
  sight->owner = to;
}

/* Called around each sleep. Sleeps are not charged, but the CPU that they take is the loop's;
 * objects that other threads allocate meanwhile are the threads'. */
static void sleeps(struct gyre_loop *loop, bool begins) {
  struct gyre_sight *sight = &gyre_scheduler_of(loop)->sight;
  if (begins) {
    gyre_sight_switch(sight, NULL);
  } else if (!sight->owner) { /* else a trap handler has used the loop */
    sight->slept_ticks += take_ticks(sight);
    sight->rows[GYRE_SIGHT_THREADS].allocated += take_allocated(sight);
    if ((double)sight->slept_ticks * ns_per_tick > SLEPT_NS)
      sight->rows[GYRE_SIGHT_LOOP].ticks += correct(sight, sight->slept_ticks);
    sight->owner = &sight->rows[GYRE_SIGHT_LOOP];
  }
}

/* --- accounts --- */

void gyre_sight_set_row(struct gyre_sight_account *account, struct gyre_sight_account *row) {
  row->ticks += account->ticks;
  row->blocked += account->blocked;
  row->allocated += account->allocated;
  if (account->longest > row->longest) row->longest = account->longest;
  account->ticks = account->blocked = account->allocated = account->longest = 0;
  account->row = row;
}

/* Empties an account that no row was found for. */
static void settle(struct gyre_sight *sight, struct gyre_sight_account *account) {
  if (!account->row) gyre_sight_set_row(account, &sight->rows[GYRE_SIGHT_LOOP]);
  account->row = NULL;
  account->label = Qnil;
}

void gyre_sight_release(struct gyre_sight *sight, struct gyre_sight_account *account) {
  if (!account || !account->holders || --account->holders) return;
  settle(sight, account);
  if (sight->owner == account) sight->owner = &sight->rows[GYRE_SIGHT_LOOP];
  free(account);
}

void gyre_sight_assign(struct gyre_scheduler *scheduler, struct gyre_worker *worker,
                       struct gyre_sight_account *account) {
  if (!account && worker->account && worker->account->holders == 1) {
    settle(&scheduler->sight, worker->account);
    return;
  }
  if (account && account->holders) {
    account->holders++;
  } else if (!account && (account = calloc(1, sizeof(*account)))) {
    account->label = Qnil;
    account->holders = 1;
  }
  gyre_sight_release(&scheduler->sight, worker->account);
  worker->account = account;
}

void gyre_sight_job_is_over(struct gyre_scheduler *scheduler, struct gyre_worker *worker) {
  if (scheduler->sight.owner == worker->account) gyre_sight_switch(&scheduler->sight, gyre_sight_of(scheduler, NULL));
  if (!worker->account || !worker->account->holders) return;
  if (worker->account->holders == 1) {
    settle(&scheduler->sight, worker->account);
  } else {
    gyre_sight_release(&scheduler->sight, worker->account);
    worker->account = NULL;
  }
}

/* The fiber must be the present one, or not a worker's. */
static bool runs(const struct gyre_scheduler *scheduler, VALUE fiber) {
  const struct gyre_worker *worker = scheduler->running.worker;
  return worker && worker->fiber == fiber && scheduler->sight.owner;
}

/* Gives the present worker an account of its own, unless it has a fresh one. */
static struct gyre_sight_account *renew(struct gyre_scheduler *scheduler) {
  struct gyre_worker *worker = scheduler->running.worker;
  struct gyre_sight_account *account = worker->account;
  if (account && account->holders == 1 && !account->row && NIL_P(account->label)) return account;
  charge(&scheduler->sight, false);
  gyre_sight_assign(scheduler, worker, NULL);
  scheduler->sight.owner = gyre_sight_of(scheduler, worker);
  return worker->account;
}

void gyre_sight_request(struct gyre_scheduler *scheduler, VALUE fiber, VALUE env) {
  if (!runs(scheduler, fiber)) return;
  struct gyre_sight_account *account = renew(scheduler);
  if (account && RB_TYPE_P(env, T_HASH)) account->label = env;
}

void gyre_sight_enter_row(struct gyre_scheduler *scheduler, struct gyre_sight_account *row) {
  if (!row || !runs(scheduler, rb_fiber_current())) return;
  struct gyre_sight_account *account = scheduler->running.worker->account;
  if (!account || account->row != row) account = renew(scheduler);
  if (account) gyre_sight_set_row(account, row);
}

struct gyre_sight_account *gyre_sight_running(struct gyre_scheduler *scheduler, VALUE fiber) {
  if (!runs(scheduler, fiber)) return NULL;
  struct gyre_sight_account *account = scheduler->running.worker->account;
  return account && account->holders && !NIL_P(account->label) ? account : NULL;
}

/* --- rows --- */

struct gyre_sight_account *gyre_sight_row(struct gyre_sight *sight, VALUE label, bool named) {
  long length = RSTRING_LEN(label);
  struct gyre_sight_account **recent = &sight->recent[length % GYRE_SIGHT_RECENT];
  if (*recent && RSTRING_LEN((*recent)->label) == length &&
      memcmp(RSTRING_PTR((*recent)->label), RSTRING_PTR(label), (size_t)length) == 0)
    return *recent;
  VALUE number = rb_hash_lookup(sight->numbers, label);
  if (!NIL_P(number)) return *recent = &sight->rows[FIX2LONG(number)];
  if (sight->count >= (named ? GYRE_SIGHT_ROWS : ROWS_OF_PATHS) || length > LABEL_BYTES_LIMIT)
    return &sight->rows[GYRE_SIGHT_OTHER];
  label = rb_str_new_frozen(label);
  rb_hash_aset(sight->numbers, label, UINT2NUM(sight->count));
  sight->rows[sight->count].label = label;
  return &sight->rows[sight->count++];
}

static struct gyre_sight_account *find_place(struct gyre_sight *sight, VALUE file, VALUE line) {
  VALUE lines = rb_hash_lookup(sight->places, file);
  VALUE number = NIL_P(lines) ? Qnil : rb_hash_lookup(lines, line);
  if (!NIL_P(number)) return &sight->rows[FIX2LONG(number)];
  struct gyre_sight_account *row = gyre_sight_row(sight, rb_sprintf("%" PRIsVALUE ":%" PRIsVALUE, file, line), false);
  if (row == &sight->rows[GYRE_SIGHT_OTHER]) return row;
  if (NIL_P(lines)) rb_hash_aset(sight->places, file, lines = rb_hash_new());
  rb_hash_aset(lines, line, LONG2FIX(row - sight->rows));
  return row;
}

static struct gyre_sight_account *row_of_place(struct gyre_sight *sight, VALUE block) {
  VALUE array = rb_funcall(block, id_source_location, 0);
  if (!RB_TYPE_P(array, T_ARRAY)) return &sight->rows[GYRE_SIGHT_OTHER]; /* a method in C */
  VALUE file = rb_ary_entry(array, 0), line = rb_ary_entry(array, 1);
  struct gyre_sight_place *recent = &sight->recent_places[(line >> 1) % GYRE_SIGHT_RECENT];
  if (!recent->row || recent->file != file || recent->line != line) {
    struct gyre_sight_account *row = find_place(sight, file, line);
    *recent = (struct gyre_sight_place){.file = file, .line = line, .row = row};
  }
  return recent->row;
}

/* A task has a name or a block; any other job is a Proc or a Method, maybe with arguments. */
struct gyre_sight_account *gyre_sight_account_for(struct gyre_scheduler *scheduler, VALUE job) {
  struct gyre_sight *sight = &scheduler->sight;
  struct gyre_sight_account *owner = sight->owner;
  if (owner && owner->holders && (owner->row || !NIL_P(owner->label))) return owner;
  if (RB_TYPE_P(job, T_ARRAY)) job = rb_ary_entry(job, 0);
  if (RB_TYPE_P(job, T_OBJECT)) {
    VALUE name = rb_attr_get(job, id_name);
    if (RB_SYMBOL_P(name)) name = rb_sym2str(name);
    if (RB_TYPE_P(name, T_STRING)) return gyre_sight_row(sight, name, false);
    job = rb_attr_get(job, id_block);
  }
  bool has_place = RB_TYPE_P(job, T_STRUCT) ? rb_respond_to(job, id_source_location)
                                            : RTEST(rb_obj_is_proc(job)) || RTEST(rb_obj_is_method(job));
  return has_place ? row_of_place(sight, job) : NULL;
}

VALUE gyre_sight_label_of(const struct gyre_sight *sight) {
  const struct gyre_sight_account *account = sight->owner ? sight->owner : &sight->rows[GYRE_SIGHT_LOOP];
  if (account->row) account = account->row;
  return RB_TYPE_P(account->label, T_HASH) ? gyre_sight_route_source(account->label) : account->label;
}

/* --- the report --- */

static VALUE seconds(uint64_t ticks) { return DBL2NUM((double)ticks * ns_per_tick / 1e9); }

/* Counts the CPU of the process's other threads. */
static void count_threads(struct gyre_sight *sight) {
  int64_t before_ns = sight->threads_ns;
  sight->threads_ns = gyre_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - gyre_clock_ns(CLOCK_THREAD_CPUTIME_ID);
  if (sight->threads_ns > before_ns)
    sight->rows[GYRE_SIGHT_THREADS].ticks += (uint64_t)((double)(sight->threads_ns - before_ns) / ns_per_tick);
}

/* Finds rows for running requests that have used much CPU. Finding may run Ruby code, after which
 * their workers are looked up again. */
static void find_rows(struct gyre_scheduler *scheduler) {
  VALUE busy = rb_ary_new();
  GYRE_EACH(const struct gyre_worker, worker, &scheduler->pool.busy, node) {
    const struct gyre_sight_account *account = worker->account;
    if (account && account->holders && !account->row && RB_TYPE_P(account->label, T_HASH) &&
        (double)account->ticks * ns_per_tick > BUSY_NS)
      rb_ary_push(busy, rb_assoc_new(worker->fiber, account->label));
  }
  for (long i = 0; i < RARRAY_LEN(busy); i++) {
    VALUE fiber = RARRAY_AREF(RARRAY_AREF(busy, i), 0), env = RARRAY_AREF(RARRAY_AREF(busy, i), 1);
    VALUE label = gyre_sight_route(env);
    if (!RB_TYPE_P(label, T_STRING)) continue;
    struct gyre_sight_account *row = gyre_sight_row(&scheduler->sight, label, false);
    struct gyre_worker *worker = gyre_worker_of(scheduler, fiber);
    struct gyre_sight_account *account = worker ? worker->account : NULL;
    if (account && account->holders && !account->row && account->label == env) gyre_sight_set_row(account, row);
  }
}

/* Returns an Array for each row: label, requests, CPU, blocked and longest seconds, objects. */
static VALUE scheduler_usage_rows(VALUE self) {
  struct gyre_scheduler *scheduler = gyre_scheduler_get(self);
  struct gyre_sight *sight = &scheduler->sight;
  if (!scheduler->closed && scheduler->thread == rb_thread_current()) {
    find_rows(scheduler);
    if (sight->owner) charge(sight, true);
    count_threads(sight);
  }
  VALUE rows = rb_ary_new_capa((long)sight->count);
  for (unsigned i = 0; i < sight->count; i++) {
    const struct gyre_sight_account *row = &sight->rows[i];
    rb_ary_push(rows, rb_ary_new_from_args(6, row->label, ULL2NUM(row->requests), seconds(row->ticks),
                                           seconds(row->blocked), seconds(row->longest), ULL2NUM(row->allocated)));
  }
  return rows;
}

/* --- the beginning and the end --- */

void gyre_sight_open(struct gyre_scheduler *scheduler) {
  static const char *const fixed[] = {"(loop)", "(threads)", "(other)", "(none)"}; /* enum gyre_sight_fixed_row */
  struct gyre_sight *sight = &scheduler->sight;
  if (ns_per_tick == 0) calibrate();
  sight->numbers = rb_hash_new();
  sight->places = rb_hash_new();
  for (int i = 0; i < 4; i++) (void)gyre_sight_row(sight, rb_str_new_cstr(fixed[i]), true);
  gyre_sight_leave(sight);
  count_threads(sight);
  scheduler->loop.sleeps = sleeps;
}

void gyre_sight_mark(const struct gyre_sight *sight) {
  GYRE_MARK(sight->numbers, sight->places);
  for (unsigned i = 0; i < sight->count; i++) rb_gc_mark(sight->rows[i].label);
  for (int i = 0; i < GYRE_SIGHT_RECENT; i++) GYRE_MARK(sight->recent_places[i].file, sight->recent_places[i].line);
}

static void forget(struct gyre_sight_account *account) {
  account->ticks = account->longest = account->blocked = account->allocated = account->requests = 0;
}

void gyre_sight_forked(struct gyre_scheduler *scheduler) {
  struct gyre_sight *sight = &scheduler->sight;
  struct gyre_worker *worker = scheduler->running.worker;
  for (unsigned i = 0; i < sight->count; i++) forget(&sight->rows[i]);
  if (worker && worker->account) forget(worker->account);
  gyre_sight_leave(sight);
  count_threads(sight);
  gyre_sight_switch(sight, gyre_sight_of(scheduler, worker));
}

void gyre_init_sight(void) {
  total_allocated = ID2SYM(rb_intern("total_allocated_objects"));
  rb_gc_stat(total_allocated); /* the first call makes Ruby's keys, which two Ractors must not do at once */
  id_name = rb_intern("@name");
  id_block = rb_intern("@block");
  id_source_location = rb_intern("source_location");
  find_counter();
  read_both(&first_ns, &first_ticks);
  rb_define_private_method(gyre_cScheduler, "usage_rows", scheduler_usage_rows, 0);
}
