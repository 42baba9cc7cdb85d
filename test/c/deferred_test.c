/*
 * Work for the end of a turn (ext/gyre/loop/deferred.h): once, in order, cancelled, deferred again,
 * freed meanwhile.
 */
#include "check.h"
#include "loop/loop.h"

#include <stdlib.h>
#include <string.h>

struct job {
  struct gyre_deferred deferred;
  struct job *other;
  int runs;
  enum { PLAIN, AGAIN, DEFERS_OTHER, CANCELS_OTHER, FREES_OTHER } does;
};

static struct gyre_loop loop;
static char order[16];
static size_t order_length;

static void run(struct gyre_loop *of, struct gyre_deferred *deferred) {
  struct job *job = GYRE_CONTAINER(deferred, struct job, deferred);
  CHECK(of == &loop);
  CHECK(!gyre_deferred_waits(deferred));
  order[order_length++] = (char)('a' + job->runs++);
  if (job->does == AGAIN) gyre_loop_defer(of, deferred);
  if (job->does == DEFERS_OTHER) gyre_loop_defer(of, &job->other->deferred);
  if (job->does == CANCELS_OTHER || job->does == FREES_OTHER) gyre_deferred_cancel(&job->other->deferred);
  if (job->does == FREES_OTHER) free(job->other);
}

static struct job *new_job(int does) {
  struct job *job = calloc(1, sizeof(*job));
  gyre_deferred_init(&job->deferred, run);
  job->does = does;
  return job;
}

static void turn(void) {
  memset(order, 0, sizeof(order));
  order_length = 0;
  gyre_loop_run_deferred(&loop);
}

static void test_it_runs_once_however_often_it_was_deferred(void) {
  struct job *job = new_job(PLAIN);
  for (int i = 0; i < 3; i++) gyre_loop_defer(&loop, &job->deferred);
  CHECK(gyre_deferred_waits(&job->deferred));
  turn();
  turn();
  CHECK(job->runs == 1);
  free(job);
}

static void test_what_is_deferred_meanwhile_is_for_the_next_turn(void) {
  struct job *again = new_job(AGAIN), *other = new_job(PLAIN), *defers = new_job(DEFERS_OTHER);
  defers->other = other;
  gyre_loop_defer(&loop, &again->deferred);
  gyre_loop_defer(&loop, &defers->deferred);
  turn();
  CHECK(again->runs == 1 && defers->runs == 1 && other->runs == 0);
  turn();
  CHECK(again->runs == 2 && defers->runs == 1 && other->runs == 1);
  CHECK(strcmp(order, "ba") == 0);
  gyre_deferred_cancel(&again->deferred);
  turn();
  CHECK(again->runs == 2 && order_length == 0);
  free(again), free(other), free(defers);
}

static void test_one_may_cancel_and_free_another_that_is_due(void) {
  struct job *cancels = new_job(CANCELS_OTHER), *cancelled = new_job(PLAIN), *frees = new_job(FREES_OTHER),
             *last = new_job(PLAIN);
  cancels->other = cancelled;
  frees->other = new_job(PLAIN);
  gyre_loop_defer(&loop, &cancels->deferred);
  gyre_loop_defer(&loop, &frees->deferred);
  gyre_loop_defer(&loop, &frees->other->deferred);
  gyre_loop_defer(&loop, &cancelled->deferred);
  gyre_loop_defer(&loop, &last->deferred);
  turn();
  CHECK(cancels->runs == 1 && frees->runs == 1 && cancelled->runs == 0 && last->runs == 1);
  CHECK(!gyre_deferred_waits(&cancelled->deferred));
  free(cancels), free(cancelled), free(frees), free(last);
}

static void test_a_loop_that_closes_runs_none(void) {
  struct job *job = new_job(PLAIN);
  gyre_loop_defer(&loop, &job->deferred);
  gyre_loop_drop_deferred(&loop);
  CHECK(!gyre_deferred_waits(&job->deferred));
  turn();
  CHECK(job->runs == 0);
  free(job);
}

int main(void) {
  gyre_list_init(&loop.deferred);
  test_it_runs_once_however_often_it_was_deferred();
  test_what_is_deferred_meanwhile_is_for_the_next_turn();
  test_one_may_cancel_and_free_another_that_is_due();
  test_a_loop_that_closes_runs_none();
  return check_summary();
}
