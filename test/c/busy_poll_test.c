/*
 * When a loop asks for a moment before it sleeps (ext/gyre/loop/busy_poll.h): at first, and after
 * each reply in time; ever more seldom where none comes in time.
 */
#include "check.h"
#include "loop/busy_poll.h"

static unsigned left_out(struct gyre_busy_poll *busy) {
  unsigned count = 0;
  while (!gyre_busy_poll_is_due(busy)) count++;
  return count;
}

static void test_each_time_in_vain_doubles_how_often_it_is_left_out(void) {
  struct gyre_busy_poll busy = {0};
  CHECK(left_out(&busy) == 0);
  for (unsigned i = 1; i <= GYRE_BUSY_POLL_IN_VAIN_LIMIT; i++) {
    gyre_busy_poll_done(&busy, false);
    CHECK(left_out(&busy) == 1u << i);
  }
  gyre_busy_poll_done(&busy, false);
  CHECK(left_out(&busy) == 1u << GYRE_BUSY_POLL_IN_VAIN_LIMIT);
}

static void test_a_reply_in_time_ends_that(void) {
  struct gyre_busy_poll busy = {0};
  for (int i = 0; i < 5; i++) gyre_busy_poll_done(&busy, false);
  (void)left_out(&busy);
  gyre_busy_poll_done(&busy, true);
  for (int i = 0; i < 3; i++) CHECK(left_out(&busy) == 0);
  gyre_busy_poll_done(&busy, false);
  CHECK(left_out(&busy) == 2);
}

int main(void) {
  test_each_time_in_vain_doubles_how_often_it_is_left_out();
  test_a_reply_in_time_ends_that();
  return check_summary();
}
