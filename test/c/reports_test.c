/*
 * Which watches a turn calls (ext/gyre/loop/reports.c): reported again once, in the next turn,
 * together with what the kernel reports; removed meanwhile, freed meanwhile.
 */
#include "check.h"
#include "loop/loop.h"

#include <stdlib.h>
#include <string.h>

struct user {
  struct gyre_watch watch;
  struct user *other;
  int calls;
  unsigned ready; /* of the last call */
  enum { PLAIN, AGAIN, REMOVES_OTHER, FREES_OTHER } does;
};

static struct gyre_loop loop;
static struct gyre_descriptor descriptors[4];

/* As gyre_loop_watch and gyre_loop_unwatch, but for the kernel. */
static void begin_watch(struct gyre_watch *watch, int fd) {
  gyre_list_init(&watch->to_call);
  watch->fd = fd;
  watch->interest = GYRE_READABLE;
  watch->next = descriptors[fd].first;
  if (watch->next) watch->next->previous = watch;
  descriptors[fd].first = watch;
}

static void end_watch(struct gyre_watch *watch) {
  gyre_list_remove(&watch->to_call);
  if (watch->next) watch->next->previous = watch->previous;
  if (watch->previous) watch->previous->next = watch->next;
  if (descriptors[watch->fd].first == watch) descriptors[watch->fd].first = watch->next;
  watch->fd = -1;
}

static void on_ready(struct gyre_loop *of, struct gyre_watch *watch, unsigned ready) {
  struct user *user = GYRE_CONTAINER(watch, struct user, watch);
  CHECK(of == &loop);
  CHECK(watch->call_with == 0);
  user->calls++;
  user->ready = ready;
  if (user->does == AGAIN) gyre_loop_report_again(of, watch, GYRE_READABLE);
  if (user->does == REMOVES_OTHER || user->does == FREES_OTHER) end_watch(&user->other->watch);
  if (user->does == FREES_OTHER) free(user->other);
}

static struct user *new_user(int fd, int does) {
  struct user *user = calloc(1, sizeof(*user));
  user->watch.ready = on_ready;
  user->does = does;
  begin_watch(&user->watch, fd);
  return user;
}

static void end(struct user *user) {
  if (user->watch.fd >= 0) end_watch(&user->watch);
  free(user);
}

static void test_two_requests_are_one_report_and_a_sleep_is_kept_off_until_then(void) {
  struct user *user = new_user(1, PLAIN);
  gyre_loop_report_again(&loop, &user->watch, GYRE_READABLE);
  gyre_loop_report_again(&loop, &user->watch, GYRE_WRITABLE);
  CHECK(!gyre_list_empty(&loop.again));
  gyre_loop_report_left(&loop);
  CHECK(user->calls == 1 && user->ready == (GYRE_READABLE | GYRE_WRITABLE));
  CHECK(gyre_list_empty(&loop.again));
  gyre_loop_report_left(&loop);
  CHECK(user->calls == 1);
  end(user);
}

static void test_a_request_of_the_function_that_is_called_is_for_the_next_turn(void) {
  struct user *user = new_user(1, AGAIN);
  CHECK(gyre_loop_report(&loop, 1, GYRE_READABLE));
  CHECK(user->calls == 1);
  for (int turn = 2; turn < 5; turn++) {
    gyre_loop_report_left(&loop);
    CHECK(user->calls == turn);
  }
  end(user);
  CHECK(gyre_list_empty(&loop.again));
}

static void test_a_watch_that_was_removed_or_freed_meanwhile_is_not_called(void) {
  struct user *removed = new_user(1, PLAIN), *removes = new_user(2, REMOVES_OTHER), *frees = new_user(3, FREES_OTHER);
  removes->other = removed;
  frees->other = new_user(1, PLAIN);
  gyre_loop_report_again(&loop, &removes->watch, GYRE_READABLE);
  gyre_loop_report_again(&loop, &frees->watch, GYRE_READABLE);
  gyre_loop_report_again(&loop, &removed->watch, GYRE_READABLE);
  gyre_loop_report_again(&loop, &frees->other->watch, GYRE_READABLE);
  gyre_loop_report_left(&loop);
  CHECK(removes->calls == 1 && frees->calls == 1 && removed->calls == 0);
  gyre_loop_report_again(&loop, &removed->watch, GYRE_READABLE); /* it does not watch */
  CHECK(gyre_list_empty(&loop.again));
  end(removed), end(removes), end(frees);
}

static void test_of_several_on_one_descriptor_each_is_called_once(void) {
  struct user *again = new_user(1, PLAIN), *other = new_user(1, PLAIN), *deaf = new_user(1, PLAIN);
  deaf->watch.interest = GYRE_WRITABLE;
  gyre_loop_report_again(&loop, &again->watch, GYRE_WRITABLE);
  CHECK(gyre_loop_report(&loop, 1, GYRE_READABLE));
  CHECK(again->calls == 1 && again->ready == (GYRE_READABLE | GYRE_WRITABLE));
  CHECK(other->calls == 1 && other->ready == GYRE_READABLE && deaf->calls == 0);
  gyre_loop_report_left(&loop);
  CHECK(again->calls == 1);
  end(again), end(other), end(deaf);
}

static void test_a_loop_that_is_closed_calls_none(void) {
  struct user *user = new_user(1, PLAIN);
  gyre_loop_report_again(&loop, &user->watch, GYRE_READABLE);
  loop.backend_state = NULL;
  gyre_loop_report_left(&loop);
  CHECK(user->calls == 0);
  loop.backend_state = &loop;
  end(user);
}

int main(void) {
  gyre_list_init(&loop.to_call);
  gyre_list_init(&loop.again);
  loop.backend_state = &loop;
  loop.descriptors = descriptors;
  test_two_requests_are_one_report_and_a_sleep_is_kept_off_until_then();
  test_a_request_of_the_function_that_is_called_is_for_the_next_turn();
  test_a_watch_that_was_removed_or_freed_meanwhile_is_not_called();
  test_of_several_on_one_descriptor_each_is_called_once();
  test_a_loop_that_is_closed_calls_none();
  return check_summary();
}
