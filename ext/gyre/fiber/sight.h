/* Accounts for the processor: each stretch that a fiber runs, from one switch to the next, is
 * charged to an account with its CPU time, its allocated objects, and its time without CPU.
 *
 * Rows are by route or task, and live as long as their scheduler. A request's route is known only
 * once a framework has chosen it. So a request has an account that it shares with all fibers that
 * it starts; the account gets a row at the request's end and passes on to it from then on.
 *
 * A clock of the processor (sight.c) is read at each switch. It also counts preemption, blocking
 * calls and waits for the GVL; so a stretch over 100 µs is corrected by the thread's CPU clock,
 * which costs 50 times as much. */
#pragma once

#include "gyre.h"

struct gyre_scheduler;
struct gyre_worker;

#define GYRE_SIGHT_ROWS 200
#define GYRE_SIGHT_RECENT 16

enum gyre_sight_fixed_row { GYRE_SIGHT_LOOP, GYRE_SIGHT_THREADS, GYRE_SIGHT_OTHER, GYRE_SIGHT_NONE };

struct gyre_sight_account {
  uint64_t ticks, longest, blocked; /* ticks of CPU, of the longest stretch, of long ones without CPU */
  uint64_t allocated, requests;
  VALUE label;                    /* of a row: its name; of a running request: its env; else nil */
  struct gyre_sight_account *row; /* takes the stretches; NULL: not known yet, or a row itself */
  unsigned holders;               /* workers that are charged to it; 0: a row */
};

/* Where a block begins, and its row; NULL: none yet. */
struct gyre_sight_place {
  VALUE file, line;
  struct gyre_sight_account *row;
};

/* A scheduler's accounts. Zeros are valid before gyre_sight_open. */
struct gyre_sight {
  struct gyre_sight_account *owner;  /* of the present stretch; NULL: outside of the loop, or asleep */
  uint64_t since;                    /* the stretch's beginning */
  uint64_t allocated, counted_ticks; /* objects when they were last counted, and when that was */
  uint64_t short_ticks;              /* of uncorrected stretches since cpu_ns was read */
  uint64_t slept_ticks;              /* the same of sleeps */
  int64_t cpu_ns;                    /* the thread's CPU clock when it was last read */
  int64_t threads_ns;                /* CPU of the process's other threads at the last report */
  VALUE numbers;                     /* Hash: a row's label => its number */
  VALUE places;                      /* Hash: file => Hash: line => number of the row */
  struct gyre_sight_account *recent[GYRE_SIGHT_RECENT];     /* rows that were looked up, by label's length */
  struct gyre_sight_place recent_places[GYRE_SIGHT_RECENT]; /* by line */
  unsigned count;
  struct gyre_sight_account rows[GYRE_SIGHT_ROWS];
};

/* Returns the route that a framework has set in the env, else the path's pattern, else nil; may run
 * Ruby code. Set by http/route.c. */
extern VALUE (*gyre_sight_route)(VALUE env);

/* What names a request's route, found without Ruby code: a String, or an object of a framework. */
extern VALUE (*gyre_sight_route_source)(VALUE env);
/* Returns the route that such a source names, or nil; may run Ruby code. */
extern VALUE (*gyre_sight_route_name)(VALUE source);

/* Returns the label of the present stretch: the source of a route, or a task's name or place; nil
 * outside of the loop. May be called in a postponed job: runs no Ruby code. */
VALUE gyre_sight_label_of(const struct gyre_sight *sight);
/* The same of this thread's scheduler (scheduler.c). */
VALUE gyre_sight_label(void);

void gyre_sight_open(struct gyre_scheduler *scheduler);
void gyre_sight_mark(const struct gyre_sight *sight);
/* Forgets the parent's sums in a forked child. */
void gyre_sight_forked(struct gyre_scheduler *scheduler);
/* Ends the present stretch uncharged. Called if another thread or process takes over. */
void gyre_sight_leave(struct gyre_sight *sight);

void gyre_sight_change(struct gyre_sight *sight, struct gyre_sight_account *to);
/* Charges the stretch to its owner, and begins one of `to`. */
static inline void gyre_sight_switch(struct gyre_sight *sight, struct gyre_sight_account *to) {
  if (sight->owner != to) gyre_sight_change(sight, to);
}

/* Returns the account that a job is to be charged to: the present request's, or the row of the
 * task; NULL: one of its own. May run Ruby code. */
struct gyre_sight_account *gyre_sight_account_for(struct gyre_scheduler *scheduler, VALUE job);
/* Gives the worker an account; NULL: one of its own. */
void gyre_sight_assign(struct gyre_scheduler *scheduler, struct gyre_worker *worker,
                       struct gyre_sight_account *account);
/* Called in a worker's fiber after its job. */
void gyre_sight_job_is_over(struct gyre_scheduler *scheduler, struct gyre_worker *worker);
void gyre_sight_release(struct gyre_sight *sight, struct gyre_sight_account *account);

/* Begins a request in the present fiber, if it is a worker's. */
void gyre_sight_request(struct gyre_scheduler *scheduler, VALUE fiber, VALUE env);
/* Returns the account of the request that the present fiber runs; NULL: none, or it has ended. */
struct gyre_sight_account *gyre_sight_running(struct gyre_scheduler *scheduler, VALUE fiber);
/* Charges what follows in the present fiber to the row. */
void gyre_sight_enter_row(struct gyre_scheduler *scheduler, struct gyre_sight_account *row);
/* Passes on the account's sums, and what follows, to the row. */
void gyre_sight_set_row(struct gyre_sight_account *account, struct gyre_sight_account *row);
/* Finds or makes the row of a label. `named`: by the program, for which the last rows are kept. */
struct gyre_sight_account *gyre_sight_row(struct gyre_sight *sight, VALUE label, bool named);
