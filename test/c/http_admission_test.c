/*
 * Places and the queue before them (ext/gyre/http/admission.h): what runs, what waits, what is
 * refused and when, on a clock that the test moves.
 */
#include "check.h"
#include "http/admission.h"

#include <stdlib.h>
#include <string.h>

#define MS 1000000

struct request {
  struct gyre_admission_waiter waiter;
  char name;
};

static struct gyre_loop loop;
static struct gyre_admission admission;
static struct gyre_http_statistics statistics;
static char events[256];
static struct request requests[26];
static bool ends_at_once; /* what starts gives its place back before it returns */
static bool stops;        /* what starts stops the admission */

static void note(char kind, char name) {
  size_t length = strlen(events);
  if (length + 3 < sizeof(events)) events[length] = kind, events[length + 1] = name, events[length + 2] = '\0';
}

static void on_decision(struct gyre_admission_waiter *waiter, bool placed) {
  struct request *request = GYRE_CONTAINER(waiter, struct request, waiter);
  CHECK(gyre_list_empty(&waiter->node));
  note(placed ? '+' : '-', request->name);
  memset(waiter, 0xee, sizeof(*waiter)); /* its memory may be gone after the call */
  if (!placed) return;
  if (ends_at_once) gyre_admission_leave(&admission);
  if (stops) gyre_admission_stop(&admission);
}

static void begin(uint32_t running_limit, uint32_t queue_limit, int64_t queue_ns) {
  memset(&loop, 0, sizeof(loop));
  loop.virtual_ns = loop.now_ns = 1000 * MS;
  gyre_timers_init(&loop.timers);
  memset(&admission, 0, sizeof(admission));
  memset(&statistics, 0, sizeof(statistics));
  gyre_admission_init(&admission, &statistics);
  admission.loop = &loop;
  admission.running_limit = running_limit;
  admission.queue_limit = queue_limit;
  admission.queue_ns = queue_ns;
  events[0] = '\0';
  ends_at_once = stops = false;
}

static void finish(void) {
  gyre_admission_stop(&admission);
  CHECK(loop.timers.count == 0);
  CHECK(admission.waiting_count == 0);
  gyre_timers_free(&loop.timers);
}

/* A request comes: 'r' it runs, 'w' it waits, 'x' it is refused. */
static char come(char name) {
  struct request *request = &requests[name - 'a'];
  memset(request, 0, sizeof(*request));
  request->name = name;
  gyre_list_init(&request->waiter.node);
  request->waiter.decided = on_decision;
  if (gyre_admission_has_place(&admission)) {
    gyre_admission_take(&admission);
    return 'r';
  }
  return gyre_admission_enter(&admission, &request->waiter) ? 'w' : 'x';
}

static void turn(int64_t later_ns) {
  loop.virtual_ns += later_ns;
  loop.now_ns = loop.virtual_ns;
  gyre_timers_fire(&loop.timers, loop.now_ns, &loop);
}

static bool happened(const char *expected) {
  bool same = strcmp(events, expected) == 0;
  if (!same) fprintf(stderr, "happened: %s\nexpected: %s\n", events, expected);
  events[0] = '\0';
  return same;
}

static void test_without_a_limit_everything_runs(void) {
  begin(0, 0, -1);
  for (int i = 0; i < 1000; i++) CHECK(come('a') == 'r');
  CHECK(!gyre_admission_is_full(&admission));
  finish();
}

static void test_places_then_the_queue_then_refusals_first_in_first_out(void) {
  begin(2, 2, -1);
  CHECK(come('a') == 'r' && come('b') == 'r' && come('c') == 'w' && !gyre_admission_is_full(&admission));
  CHECK(come('d') == 'w' && gyre_admission_is_full(&admission) && come('e') == 'x');
  CHECK(statistics.waited == 2 && statistics.shed == 1);
  turn(3600000LL * MS);
  CHECK(happened(""));
  gyre_admission_leave(&admission);
  CHECK(happened(""));                          /* from the timer, never from within */
  CHECK(!gyre_admission_has_place(&admission)); /* it is the oldest one's */
  turn(0);
  CHECK(happened("+c"));
  gyre_admission_leave(&admission);
  gyre_admission_leave(&admission);
  turn(0);
  CHECK(happened("+d"));
  CHECK(admission.running == 1 && come('f') == 'r' && come('g') == 'w');
  finish();
}

static void test_a_request_that_waits_too_long_is_refused_in_its_order(void) {
  begin(1, 10, 50 * MS);
  CHECK(come('a') == 'r' && come('b') == 'w');
  turn(20 * MS);
  CHECK(come('c') == 'w');
  turn(29 * MS);
  CHECK(happened(""));
  turn(1 * MS);
  CHECK(happened("-b"));
  gyre_admission_leave(&admission);
  turn(0);
  CHECK(happened("+c"));
  turn(1000 * MS);
  CHECK(happened("") && statistics.shed == 1);
  finish();
}

static void test_one_whose_client_has_ended_its_side_comes_last_and_makes_room_first(void) {
  begin(1, 3, -1);
  CHECK(come('a') == 'r' && come('b') == 'w' && come('c') == 'w' && come('d') == 'w');
  gyre_admission_put_last(&admission, &requests['b' - 'a'].waiter);
  CHECK(come('e') == 'w'); /* in b's place */
  CHECK(come('f') == 'x');
  turn(0);
  CHECK(happened("-b"));
  gyre_admission_put_last(&admission, &requests['c' - 'a'].waiter);
  for (int i = 0; i < 3; i++) {
    gyre_admission_leave(&admission);
    turn(0);
  }
  CHECK(happened("+d+e+c"));
  finish();
}

static void test_deadlines_count_for_those_put_last_as_well(void) {
  begin(1, 4, 50 * MS);
  CHECK(come('a') == 'r' && come('b') == 'w');
  turn(10 * MS);
  CHECK(come('c') == 'w');
  gyre_admission_put_last(&admission, &requests['c' - 'a'].waiter);
  gyre_admission_put_last(&admission, &requests['b' - 'a'].waiter);
  turn(40 * MS);
  CHECK(happened("-b"));
  turn(10 * MS);
  CHECK(happened("-c"));
  finish();
}

static void test_what_is_withdrawn_is_neither_started_nor_refused(void) {
  begin(1, 4, 50 * MS);
  CHECK(come('a') == 'r' && come('b') == 'w' && come('c') == 'w');
  gyre_admission_withdraw(&admission, &requests['b' - 'a'].waiter);
  gyre_admission_withdraw(&admission, &requests['b' - 'a'].waiter);
  CHECK(admission.waiting_count == 1);
  gyre_admission_leave(&admission);
  gyre_admission_withdraw(&admission, &requests['c' - 'a'].waiter);
  turn(100 * MS);
  CHECK(happened("") && come('d') == 'r');
  finish();
}

static uint64_t counted_waits(void) {
  uint64_t count = 0;
  for (int i = 0; i <= GYRE_HTTP_DURATIONS; i++) count += statistics.waits.counts[i];
  return count;
}

static void test_each_wait_is_measured_however_it_ends(void) {
  begin(1, 4, 50 * MS);
  CHECK(come('a') == 'r' && come('b') == 'w' && come('c') == 'w' && come('d') == 'w');
  CHECK(counted_waits() == 0);
  turn(2 * MS);
  gyre_admission_withdraw(&admission, &requests['c' - 'a'].waiter);
  CHECK(counted_waits() == 1 && statistics.waits.sum_ns == 2 * MS && statistics.waits.counts[3] == 1);
  turn(18 * MS);
  gyre_admission_leave(&admission);
  turn(0); /* b has the place */
  CHECK(happened("+b") && counted_waits() == 2 && statistics.waits.sum_ns == 22 * MS &&
        statistics.waits.counts[6] == 1);
  turn(30 * MS); /* d is refused */
  CHECK(counted_waits() == 3 && statistics.waits.sum_ns == 72 * MS);
  finish();
  CHECK(counted_waits() == 3);
}

static void test_what_ends_at_once_leaves_its_place_to_the_next_and_the_kernel_is_asked_between(void) {
  begin(1, 1000, -1);
  ends_at_once = true;
  CHECK(come('a') == 'r');
  struct request *many = calloc(100, sizeof(*many));
  for (int i = 0; i < 100; i++) {
    many[i].name = 'z';
    gyre_list_init(&many[i].waiter.node);
    many[i].waiter.decided = on_decision;
    CHECK(gyre_admission_enter(&admission, &many[i].waiter));
  }
  gyre_admission_leave(&admission);
  turn(0);
  CHECK(admission.waiting_count == 36); /* 64 in one turn */
  turn(0);
  CHECK(admission.waiting_count == 0 && admission.running == 0);
  free(many);
  finish();
}

static void test_a_handler_may_stop_it(void) {
  begin(1, 4, 50 * MS);
  stops = true;
  CHECK(come('a') == 'r' && come('b') == 'w' && come('c') == 'w');
  gyre_admission_leave(&admission);
  turn(100 * MS);
  CHECK(happened("+b"));
  CHECK(gyre_list_empty(&requests['c' - 'a'].waiter.node));
  finish();
}

int main(void) {
  test_without_a_limit_everything_runs();
  test_places_then_the_queue_then_refusals_first_in_first_out();
  test_a_request_that_waits_too_long_is_refused_in_its_order();
  test_one_whose_client_has_ended_its_side_comes_last_and_makes_room_first();
  test_deadlines_count_for_those_put_last_as_well();
  test_what_is_withdrawn_is_neither_started_nor_refused();
  test_each_wait_is_measured_however_it_ends();
  test_what_ends_at_once_leaves_its_place_to_the_next_and_the_kernel_is_asked_between();
  test_a_handler_may_stop_it();
  return check_summary();
}
