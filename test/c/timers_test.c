/*
 * The heap of timers (ext/gyre/loop/timers.h): 10,000 of them fire in the order of their times,
 * without those that were cancelled or moved meanwhile.
 */
#include "check.h"
#include "loop/timers.h"

#include <stddef.h>
#include <stdlib.h>

#define MANY 10000

static struct gyre_timers timers;
static struct gyre_timer each[MANY];
static int64_t last_ns;
static uint32_t fired, late;

static void fire(struct gyre_timer *timer, void *context) {
  CHECK(context == &timers && !gyre_timer_armed(timer));
  late += timer->when_ns < last_ns;
  last_ns = timer->when_ns;
  fired++;
}

static void arm_all(void) {
  uint32_t drawn = 1;
  last_ns = 0;
  fired = late = 0;
  for (int i = 0; i < MANY; i++) {
    drawn = drawn * 1664525 + 1013904223;
    each[i].fire = fire;
    CHECK(gyre_timers_arm(&timers, &each[i], 1 + drawn % 5000) == 0);
  }
}

static void test_they_fire_in_the_order_of_their_times(void) {
  arm_all();
  CHECK(gyre_timers_next(&timers) >= 1);
  uint32_t early = gyre_timers_fire(&timers, 2500, &timers);
  CHECK(early > 0 && early < MANY && early == fired);
  CHECK(gyre_timers_next(&timers) > 2500);
  CHECK(early + gyre_timers_fire(&timers, 5000, &timers) == MANY);
  CHECK(fired == MANY && late == 0 && gyre_timers_next(&timers) == -1);
}

static void test_cancelled_and_moved_ones_do_not_fire_at_their_old_times(void) {
  arm_all();
  for (int i = 0; i < MANY; i += 2) gyre_timers_cancel(&timers, &each[i]);
  for (int i = 1; i < MANY; i += 4) CHECK(gyre_timers_arm(&timers, &each[i], 6000) == 0);
  gyre_timers_cancel(&timers, &each[0]); /* harmless */
  CHECK(gyre_timers_fire(&timers, 5999, &timers) == MANY / 4);
  CHECK(gyre_timers_fire(&timers, 6000, &timers) == MANY / 4);
  CHECK(fired == MANY / 2 && late == 0);
}

static void test_the_clock_goes_forward(void) {
  int64_t start = gyre_timers_now(), coarse = gyre_timers_coarse_now();
  CHECK(start > 0 && coarse > 0);
  while (gyre_timers_now() - start < 20000000) continue;
  CHECK(gyre_timers_coarse_now() > coarse);
}

int main(void) {
  gyre_timers_init(&timers);
  test_they_fire_in_the_order_of_their_times();
  test_cancelled_and_moved_ones_do_not_fire_at_their_old_times();
  test_the_clock_goes_forward();
  arm_all();
  gyre_timers_cancel_all(&timers);
  CHECK(gyre_timers_next(&timers) == -1 && !gyre_timer_armed(&each[MANY - 1]));
  gyre_timers_free(&timers);
  return check_summary();
}
