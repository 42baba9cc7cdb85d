/*
 * What processes that accept from the same sockets know of each other (ext/gyre/net/shares.h): one
 * with far more connections lets another one go first, but not one that does not stir.
 */
#include "check.h"
#include "net/shares.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct gyre_shares one, two;

static void join(struct gyre_shares *shares, unsigned number) {
  gyre_shares_place(number);
  gyre_shares_join(shares);
}

static void begin(uint32_t of_one, uint32_t of_two) {
  gyre_shares_leave(&one);
  gyre_shares_leave(&two);
  memset(&one, 0, sizeof(one));
  memset(&two, 0, sizeof(two));
  join(&one, 0);
  join(&two, 1);
  gyre_shares_tell(&one, of_one);
  gyre_shares_tell(&two, of_two);
}

static void test_without_the_memory_none_is_known(void) {
  join(&one, 0);
  CHECK(!one.own && !gyre_shares_others_first(&one, 1000));
  gyre_shares_tell(&one, 1);
  gyre_shares_sign(&one);
  gyre_shares_waited(&one);
  gyre_shares_leave(&one);
}

static void test_one_with_far_more_lets_the_other_go_first(void) {
  begin(2, 0);
  CHECK(gyre_shares_others_first(&one, 2) && !gyre_shares_others_first(&two, 0));
  CHECK(!gyre_shares_others_first(&one, 1));
  begin(9, 5);
  CHECK(!gyre_shares_others_first(&one, 9) && gyre_shares_others_first(&one, 12));
}

static void test_one_that_does_not_stir_is_given_up_until_it_does(void) {
  begin(5, 0);
  CHECK(gyre_shares_others_first(&one, 5));
  gyre_shares_waited(&one);
  CHECK(!gyre_shares_others_first(&one, 5));
  gyre_shares_sign(&two);
  CHECK(gyre_shares_others_first(&one, 5));
  gyre_shares_sign(&two);
  gyre_shares_waited(&one);
  CHECK(gyre_shares_others_first(&one, 5));
}

static void test_one_that_has_left_is_not_waited_for_and_a_successor_keeps_its_place(void) {
  begin(5, 0);
  gyre_shares_leave(&two);
  CHECK(!gyre_shares_others_first(&one, 5));
  begin(5, 0);
  pid_t child = fork();
  if (child == 0) {
    struct gyre_shares successor = {0};
    join(&successor, 1);
    gyre_shares_tell(&successor, 1);
    _exit(0);
  }
  CHECK(waitpid(child, NULL, 0) == child);
  gyre_shares_tell(&two, 7); /* its place is another process's by now */
  gyre_shares_leave(&two);
  CHECK(gyre_shares_others_first(&one, 4) && !gyre_shares_others_first(&one, 3));
}

static void test_beyond_the_places_none_is_known(void) {
  begin(0, 0);
  gyre_shares_leave(&one);
  join(&one, GYRE_SHARES_COUNT);
  CHECK(!one.own);
  join(&one, GYRE_SHARES_COUNT - 1);
  CHECK(one.own && gyre_shares_others_first(&one, 5));
}

int main(void) {
  test_without_the_memory_none_is_known();
  CHECK(gyre_shares_map() == 0 && gyre_shares_map() == 0);
  test_one_with_far_more_lets_the_other_go_first();
  test_one_that_does_not_stir_is_given_up_until_it_does();
  test_one_that_has_left_is_not_waited_for_and_a_successor_keeps_its_place();
  test_beyond_the_places_none_is_known();
  return check_summary();
}
