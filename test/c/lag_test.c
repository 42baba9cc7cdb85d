/*
 * The loop's lag (ext/gyre/loop/lag.h): percentiles that are never too low and at most a quarter
 * too high, and counts that are never too high.
 */
#include "check.h"
#include "loop/lag.h"

#include <stdbool.h>

static bool is_near(int64_t found, int64_t exact) { return found >= exact && found <= exact + exact / 4; }

static void test_without_anything_all_is_zero(void) {
  struct gyre_lag lag = {0};
  CHECK(gyre_lag_percentile(&lag, 0.5) == 0);
  CHECK(gyre_lag_percentile(&lag, 1) == 0);
  CHECK(gyre_lag_up_to(&lag, INT64_MAX) == 0);
}

static void test_percentiles_are_at_most_a_quarter_too_high_and_never_too_low(void) {
  struct gyre_lag lag = {0};
  for (int64_t i = 0; i < 1000; i++)
    gyre_lag_add(&lag, (i * 617 % 1000 + 1) * 1000000); /* each of 1 to 1,000 ms once */
  CHECK(is_near(gyre_lag_percentile(&lag, 0.5), INT64_C(500000000)));
  CHECK(is_near(gyre_lag_percentile(&lag, 0.9), INT64_C(900000000)));
  CHECK(is_near(gyre_lag_percentile(&lag, 0.99), INT64_C(990000000)));
  CHECK(gyre_lag_percentile(&lag, 1) == INT64_C(1000000000));
  for (int64_t ms = 1; ms <= 1000; ms++) CHECK(gyre_lag_up_to(&lag, ms * 1000000) <= (uint64_t)ms);
  CHECK(gyre_lag_up_to(&lag, INT64_C(1250000000)) == 1000);
}

static void test_the_longest_one_is_exact(void) {
  struct gyre_lag lag = {0};
  gyre_lag_add(&lag, 1000000);
  gyre_lag_add(&lag, INT64_C(3250000001));
  gyre_lag_add(&lag, 500000000);
  CHECK(lag.longest_ns == INT64_C(3250000001));
  CHECK(gyre_lag_percentile(&lag, 0.99) == INT64_C(3250000001));
}

static void test_nothing_is_too_short_or_too_long(void) {
  static const int64_t values[] = {0, 1, 3, 4, -1000000000, INT64_C(1000000000000000)};
  struct gyre_lag lag = {0};
  for (int i = 0; i < 6; i++) gyre_lag_add(&lag, values[i]);
  CHECK(gyre_lag_percentile(&lag, 1) == INT64_C(1000000000000000));
  CHECK(gyre_lag_percentile(&lag, 0.5) <= 5);
}

int main(void) {
  test_without_anything_all_is_zero();
  test_percentiles_are_at_most_a_quarter_too_high_and_never_too_low();
  test_the_longest_one_is_exact();
  test_nothing_is_too_short_or_too_long();
  return check_summary();
}
