/*
 * The plain C test of the backends: drives each one of the table (backends.h) that is built and
 * opens here through the contract of backend.h. Arguments name some of them, after "alone" for a
 * run without other threads; it says what it ran on and why not on others. Run by
 * test/loop/backend_contract_test.rb, which also compiles it with sanitizers, and by `rake
 * test:memcheck:c`.
 *
 * Nothing depends on how fast things go: what has to come is waited for long, and what must not
 * come for a moment.
 */
#include "feature.h"

#include "check.h"
#include "loop/backends.h"
#include "sockets.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifndef _WIN32
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#endif

#define MILLISECOND INT64_C(1000000)
#define MOMENT (15 * MILLISECOND)
#define LONG (10000 * MILLISECOND)
#define MANY 10000
#define ALL_IS_OVER (GYRE_READABLE | GYRE_WRITABLE | GYRE_READ_ENDED | GYRE_WRITE_ENDED)

static const struct gyre_backend_operations *backend;
static void *state;          /* open in every case */
static bool edge;            /* a watch stays when it has reported */
static bool ended_by_report; /* the watch that `reported` was called for */
static bool alone; /* without other threads: valgrind does not let them run while one waits in io_uring_enter */

/* --- tools --- */

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* The driver of a loop also looks at GYRE_ENDED; here what comes later shows it. */
static unsigned ready_of(const struct gyre_event *event) { return event->ready & ~GYRE_ENDED; }

/* What was reported of this descriptor in this generation until `wanted` is among it or the time is
 * over. */
static unsigned reported(int fd, uint32_t generation, unsigned wanted, int64_t within) {
  unsigned ready = 0;
  int64_t end = now() + within;
  do {
    struct gyre_event events[16];
    int64_t left = end - now();
    int count = backend->wait(state, events, 16, left > 0 ? left : 0);
    CHECK(count >= 0 && count <= 16);
    for (int i = 0; i < count; i++) {
      if (events[i].fd != fd || events[i].generation != generation) continue;
      ready |= ready_of(&events[i]);
      ended_by_report = events[i].ready & GYRE_ENDED;
    }
  } while ((ready & wanted) != wanted && now() < end);
  return ready;
}

static unsigned comes(int fd, uint32_t generation, unsigned wanted) {
  return reported(fd, generation, wanted, LONG) & wanted;
}
static bool nothing(int fd, uint32_t generation) { return reported(fd, generation, ~0u, MOMENT) == 0; }

/* A report may be under way when a watch ends; now it is not any more. */
static void settle(void) { reported(-2, 0, ~0u, MOMENT); }

static int watch(int fd, uint32_t generation, unsigned interest) {
  return backend->watch(state, fd, generation, interest, 0);
}

/* Shows whether descriptors were left open. */
static int lowest_free_descriptor(void) {
  int fd = dup(0);
  close(fd);
  return fd;
}

/* libkqueue closes what is its own in a thread, a little later. */
static bool free_again(int fd) {
  int64_t end = now() + LONG;
  while (lowest_free_descriptor() > fd && now() < end) sched_yield();
  return lowest_free_descriptor() <= fd;
}

/* --- reports --- */

static void nothing_is_reported_without_a_watch(void) {
  struct gyre_event event;
  CHECK(backend->wait(state, &event, 1, 0) == 0);
}

static void what_becomes_readable_is_reported(void) {
  int ends[2];
  make_pipe(ends);
  CHECK(watch(ends[0], 1, GYRE_READABLE) == 0);
  CHECK(nothing(ends[0], 1));
  put(ends[1]);
  CHECK(comes(ends[0], 1, GYRE_READABLE));
  backend->unwatch(state, ends[0], 1);
  close_both(ends);
}

static void what_is_ready_already_is_reported(void) {
  int ends[2];
  make_pipe(ends);
  put(ends[1]);
  CHECK(watch(ends[0], 1, GYRE_READABLE) == 0);
  CHECK(watch(ends[1], 7, GYRE_WRITABLE) == 0);
  struct gyre_event events[4];
  unsigned readable = 0, writable = 0;
  for (int64_t end = now() + LONG; !(readable && writable) && now() < end;) {
    int count = backend->wait(state, events, 4, LONG);
    for (int i = 0; i < count; i++) {
      if (events[i].fd == ends[0] && events[i].generation == 1) readable |= ready_of(&events[i]);
      if (events[i].fd == ends[1] && events[i].generation == 7) writable |= ready_of(&events[i]);
    }
  }
  CHECK(readable == GYRE_READABLE);
  CHECK(writable == GYRE_WRITABLE);
  close_both(ends);
}

static void what_becomes_writable_is_reported(void) {
  int ends[2];
  make_pipe(ends);
  fill(ends[1]);
  CHECK(watch(ends[1], 1, GYRE_WRITABLE) == 0);
  CHECK(nothing(ends[1], 1));
  empty(ends[0]);
  CHECK(comes(ends[1], 1, GYRE_WRITABLE));
  close_both(ends);
}

static void both_directions_are_reported(void) {
  int ends[2];
  make_pair(ends);
  put(ends[1]);
  CHECK(watch(ends[0], 1, GYRE_READABLE | GYRE_WRITABLE) == 0);
  CHECK(comes(ends[0], 1, GYRE_READABLE | GYRE_WRITABLE) == (GYRE_READABLE | GYRE_WRITABLE));
  close_both(ends);
}

static void only_what_was_asked_for_is_reported(void) {
  int ends[2];
  make_pair(ends);
  CHECK(watch(ends[0], 1, GYRE_READABLE) == 0);
  CHECK(nothing(ends[0], 1)); /* though it is writable */
  put(ends[1]);
  CHECK(comes(ends[0], 1, GYRE_READABLE) == GYRE_READABLE);
  close_both(ends);
}

static void urgent_data_is_reported_where_the_system_tells(void) {
  int ends[2];
  make_connection(ends);
  CHECK(watch(ends[0], 1, GYRE_PRIORITY) == 0);
  CHECK(send(socket_of(ends[1]), "!", 1, MSG_OOB) == 1);
  if (strcmp(backend->name, "kqueue")) CHECK(comes(ends[0], 1, GYRE_PRIORITY));
  backend->unwatch(state, ends[0], 1);
  close_both(ends);
}

static void an_end_of_the_read_side_is_reported(void) {
  int ends[2];
  make_pair(ends);
  CHECK(watch(ends[0], 1, GYRE_READABLE) == 0);
  end_writing(ends[1]);
  CHECK(comes(ends[0], 1, GYRE_READABLE | GYRE_READ_ENDED) == (GYRE_READABLE | GYRE_READ_ENDED));
  close_both(ends);

  make_pipe(ends);
  CHECK(watch(ends[0], 2, GYRE_READABLE) == 0);
  close_number(ends[1]);
  CHECK(comes(ends[0], 2, GYRE_READABLE | GYRE_READ_ENDED) == (GYRE_READABLE | GYRE_READ_ENDED));
  close_number(ends[0]);
}

static void a_half_close_leaves_the_write_side_open(void) {
  int ends[2];
  make_connection(ends);
  fill(ends[0]);
  CHECK(watch(ends[0], 1, GYRE_READABLE | GYRE_WRITABLE) == 0);
  end_writing(ends[1]);
  CHECK(reported(ends[0], 1, GYRE_READABLE | GYRE_READ_ENDED, LONG) == (GYRE_READABLE | GYRE_READ_ENDED));
  CHECK(backend->watch(state, ends[0], 2, GYRE_READABLE | GYRE_WRITABLE, 1) == 0); /* the present state, again */
  CHECK(reported(ends[0], 2, GYRE_READABLE | GYRE_READ_ENDED, LONG) == (GYRE_READABLE | GYRE_READ_ENDED));
  CHECK(backend->watch(state, ends[0], 3, GYRE_WRITABLE | GYRE_READ_ENDED, 2) == 0);
  CHECK((reported(ends[0], 3, ~0u, MOMENT) & ~(GYRE_READABLE | GYRE_READ_ENDED)) == 0);
  empty(ends[1]);
  CHECK(comes(ends[0], 3, GYRE_WRITABLE));
  backend->unwatch(state, ends[0], 3);
  close_both(ends);
}

static void an_end_of_the_own_write_side_leaves_the_read_side_open(void) {
  int ends[2];
  make_connection(ends);
  CHECK(watch(ends[0], 1, GYRE_READABLE | GYRE_WRITABLE) == 0);
  end_writing(ends[0]);
  CHECK((reported(ends[0], 1, ~0u, MOMENT) & (GYRE_READABLE | GYRE_READ_ENDED)) == 0);
  CHECK(backend->watch(state, ends[0], 2, GYRE_READABLE, 1) == 0);
  CHECK((reported(ends[0], 2, ~0u, MOMENT) & (GYRE_READABLE | GYRE_READ_ENDED)) == 0);
  put(ends[1]);
  CHECK(comes(ends[0], 2, GYRE_READABLE) == GYRE_READABLE);
  backend->unwatch(state, ends[0], 2);
  close_both(ends);
}

static void an_error_is_readable_and_writable(void) {
  int ends[2];
  make_pipe(ends);
  fill(ends[1]);
  CHECK(watch(ends[1], 1, GYRE_WRITABLE) == 0);
  close_number(ends[0]);
  CHECK(comes(ends[1], 1, GYRE_WRITABLE | GYRE_WRITE_ENDED) == (GYRE_WRITABLE | GYRE_WRITE_ENDED));
  close_number(ends[1]);

  make_connection(ends);
  CHECK(watch(ends[0], 2, GYRE_READABLE) == 0);
  reset(ends[1]);
  CHECK(comes(ends[0], 2, ALL_IS_OVER) == ALL_IS_OVER);
  close_number(ends[0]);
}

/* --- how long a watch lasts --- */

static void a_change_is_reported_once(void) {
  int ends[2];
  make_pair(ends);
  CHECK(watch(ends[0], 1, GYRE_READABLE) == 0);
  put(ends[1]);
  CHECK(comes(ends[0], 1, GYRE_READABLE));
  CHECK(nothing(ends[0], 1)); /* though it is readable */
  put(ends[1]);
  if (edge) {
    CHECK(comes(ends[0], 1, GYRE_READABLE));
  } else {
    CHECK(nothing(ends[0], 1)); /* the watch has ended with its report */
  }
  close_both(ends);
}

static void a_standing_watch_stays(void) {
  int ends[2];
  make_pair(ends);
  CHECK(watch(ends[0], 1, GYRE_READABLE | GYRE_STANDING) == 0);
  for (int i = 0; i < 3; i++) {
    put(ends[1]);
    CHECK(comes(ends[0], 1, GYRE_READABLE));
    take(ends[0]);
    if (ended_by_report) CHECK(watch(ends[0], 1, GYRE_READABLE | GYRE_STANDING) == 0);
  }
  backend->unwatch(state, ends[0], 1);
  settle();
  put(ends[1]);
  CHECK(nothing(ends[0], 1));
  close_both(ends);
}

static void a_level_watch_reports_again_and_again(void) {
  int ends[2];
  make_pair(ends);
  put(ends[1]);
  CHECK(watch(ends[0], 1, GYRE_READABLE | GYRE_LEVEL) == 0);
  CHECK(comes(ends[0], 1, GYRE_READABLE));
  if (backend->capabilities & GYRE_BACKEND_EDGE) {
    CHECK(comes(ends[0], 1, GYRE_READABLE));
    CHECK(comes(ends[0], 1, GYRE_READABLE));
    take(ends[0]);
    CHECK(nothing(ends[0], 1));
    put(ends[1]);
    CHECK(comes(ends[0], 1, GYRE_READABLE));
    CHECK(backend->watch(state, ends[0], 2, GYRE_READABLE, 1) == 0); /* and now without */
    CHECK(comes(ends[0], 2, GYRE_READABLE));
    CHECK(nothing(ends[0], 2));
  } else {
    CHECK(nothing(ends[0], 1));
  }
  close_both(ends);
}

static void asking_again_reports_the_present_state(void) {
  int ends[2];
  make_pair(ends);
  put(ends[1]);
  for (uint32_t generation = 1; generation <= 5; generation++) {
    CHECK(backend->watch(state, ends[0], generation, GYRE_READABLE, generation - 1) == 0);
    CHECK(comes(ends[0], generation, GYRE_READABLE));
  }
  close_both(ends);
}

static void a_later_watch_takes_the_place_of_an_earlier_one(void) {
  int ends[2];
  make_pair(ends);
  CHECK(watch(ends[0], 1, GYRE_READABLE) == 0);
  CHECK(backend->watch(state, ends[0], 2, GYRE_READABLE | GYRE_WRITABLE, 1) == 0);
  CHECK(comes(ends[0], 2, GYRE_WRITABLE));
  CHECK(backend->watch(state, ends[0], 3, GYRE_READABLE, 2) == 0);
  settle();
  put(ends[1]);
  struct gyre_event events[4];
  unsigned ready = 0;
  for (int64_t end = now() + LONG; !ready && now() < end;) {
    int count = backend->wait(state, events, 4, LONG);
    for (int i = 0; i < count; i++) {
      CHECK(events[i].fd == ends[0] && events[i].generation == 3);
      ready |= ready_of(&events[i]);
    }
  }
  CHECK(ready == GYRE_READABLE);
  close_both(ends);
}

static void an_ended_watch_is_silent(void) {
  int ends[2];
  make_pair(ends);
  CHECK(watch(ends[0], 1, GYRE_READABLE) == 0);
  backend->unwatch(state, ends[0], 1);
  settle();
  put(ends[1]);
  CHECK(nothing(ends[0], 1));
  backend->unwatch(state, ends[0], 1); /* harmless */
  backend->unwatch(state, ends[1], 9);
  CHECK(watch(ends[0], 2, GYRE_READABLE) == 0);
  CHECK(comes(ends[0], 2, GYRE_READABLE));
  close_both(ends);
}

/* --- descriptors that come and go --- */

static void a_number_that_was_closed_and_given_out_anew(void) {
  for (int known = 0; known < 2; known++) { /* whether the loop believes the old watch to stand */
    int ends[2], others[2];
    make_pair(ends);
    CHECK(watch(ends[0], 1, GYRE_READABLE) == 0);
    make_pair(others);
    CHECK(reported(ends[0], 1, GYRE_READABLE, 0) == 0);
    if (!known) backend->unwatch(state, ends[0], 1);
    CHECK(give_number(others[0], ends[0])); /* closes it as well */
    close_number(others[0]);
    CHECK(backend->watch(state, ends[0], 2, GYRE_READABLE, known) == 0);
    CHECK(nothing(ends[0], 2));
    put(others[1]);
    CHECK(comes(ends[0], 2, GYRE_READABLE));
    backend->unwatch(state, ends[0], 2);
    close_number(others[1]);
    close_both(ends);
  }
}

static void a_number_whose_file_lives_on_elsewhere(void) {
  int ends[2];
  make_pair(ends);
  int twin = dup(ends[0]);
  CHECK(watch(ends[0], 1, GYRE_READABLE) == 0);
  close_number(ends[0]);
  CHECK(give_number(twin, ends[0]));
  CHECK(backend->watch(state, ends[0], 2, GYRE_READABLE, 1) == 0);
  put(ends[1]);
  CHECK(comes(ends[0], 2, GYRE_READABLE));
  backend->unwatch(state, ends[0], 2);
  close_number(twin);
  close_both(ends);
}

static void the_end_of_a_watch_lets_the_peer_see_a_close(void) {
  for (int late = 0; late < 2; late++) { /* whether a report is under way */
    int ends[2];
    char byte;
    make_pair(ends);
    no_waiting(ends[1]);
    CHECK(watch(ends[0], 1, GYRE_READABLE | (late ? GYRE_STANDING : 0)) == 0);
    nothing(ends[0], 1); /* by now the kernel knows of it */
    if (late) {
      put(ends[1]);
      take(ends[0]);
    }
    backend->unwatch(state, ends[0], 1);
    close_number(ends[0]);
    CHECK(watch(ends[1], 1, GYRE_READABLE) == 0);
    CHECK(comes(ends[1], 1, GYRE_READABLE));
    CHECK(read_from(ends[1], &byte, 1) == 0);
    close_number(ends[1]);
  }
}

/* -EPERM or -EBADF at once; or, where the kernel is told later, a report that it is ready for
 * everything. */
static bool refused(int fd, uint32_t generation, unsigned interest, uint32_t previous, int error) {
  int outcome = backend->watch(state, fd, generation, interest, previous);
  return outcome == error || (outcome == 0 && !edge && comes(fd, generation, interest) == interest);
}

static void what_cannot_be_waited_for_is_refused(void) {
  FILE *file = tmpfile();
  CHECK(refused(fileno(file), 1, GYRE_READABLE, 0, -EPERM));
  CHECK(refused(fileno(file), 2, GYRE_WRITABLE, 0, -EPERM));
  fclose(file);
#ifndef _WIN32 /* no number stands for a folder there */
  int folder = open("/", O_RDONLY);
  CHECK(refused(folder, 3, GYRE_READABLE, 0, -EPERM));
  close(folder);
#endif
  CHECK(refused(lowest_free_descriptor(), 4, GYRE_READABLE, 0, -EBADF));
  settle();
}

static void a_number_that_was_a_file_is_watched_when_it_is_a_pipe(void) {
  int ends[2];
  make_pipe(ends);
  FILE *file = tmpfile();
  int number = dup(fileno(file));
  CHECK(refused(number, 1, GYRE_READABLE, 0, -EPERM));
  CHECK(give_number(ends[0], number));
  CHECK(watch(number, 2, GYRE_READABLE) == 0);
  put(ends[1]);
  CHECK(comes(number, 2, GYRE_READABLE));
  CHECK(give_number(fileno(file), number));
  CHECK(refused(number, 3, GYRE_READABLE, 2, -EPERM));
  close(number);
  fclose(file);
  close_both(ends);
}

/* Waits until each number from `first` on has been reported once, a few at a time. */
static void all_come(const int *numbers, int count, int capacity) {
  struct gyre_event events[64];
  int left = count, last = 0;
  for (int i = 0; i < count; i++) last = numbers[i] > last ? numbers[i] : last;
  bool *seen = calloc((size_t)last + 1, sizeof(bool));
  for (int64_t end = now() + LONG; left > 0 && now() < end;) {
    int got = backend->wait(state, events, capacity, LONG);
    CHECK(got >= 0 && got <= capacity);
    for (int i = 0; i < got; i++) {
      CHECK(events[i].generation == (uint32_t)events[i].fd + 1 && ready_of(&events[i]) == GYRE_READABLE &&
            !seen[events[i].fd]);
      seen[events[i].fd] = true;
      left--;
    }
  }
  CHECK(left == 0);
  free(seen);
}

static void more_events_than_asked_for_come_later(void) {
  int ends[2], numbers[9];
  make_pipe(ends);
  for (int i = 0; i < 9; i++) {
    numbers[i] = dup(ends[0]);
    CHECK(watch(numbers[i], (uint32_t)numbers[i] + 1, GYRE_READABLE) == 0);
  }
  put(ends[1]);
  all_come(numbers, 9, 2);
  for (int i = 0; i < 9; i++) close_number(numbers[i]);
  close_both(ends);
}

#ifdef _WIN32
static void a_thousand_sockets(void) {
  int(*ends)[2] = calloc(1000, sizeof(*ends)), *numbers = calloc(1000, sizeof(int)), refused = 0;
  for (int i = 0; i < 1000; i++) {
    make_connection(ends[i]);
    numbers[i] = ends[i][0];
    refused += watch(numbers[i], (uint32_t)numbers[i] + 1, GYRE_READABLE) != 0;
  }
  CHECK(refused == 0);
  CHECK(nothing(numbers[0], (uint32_t)numbers[0] + 1));
  for (int i = 0; i < 1000; i++) put(ends[i][1]);
  all_come(numbers, 1000, 64);
  for (int i = 0; i < 1000; i++) close_both(ends[i]);
  free(ends);
  free(numbers);
}
#else
static void ten_thousand_descriptors(void) {
  struct rlimit before, limit;
  CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
  limit = (struct rlimit){before.rlim_max < MANY + 1000 ? before.rlim_max : MANY + 1000, before.rlim_max};
  if (limit.rlim_cur < before.rlim_cur) limit.rlim_cur = before.rlim_cur;
  CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  int ends[2], count = 0, *numbers = calloc(MANY, sizeof(int));
  make_pipe(ends);
  while (count < MANY && (numbers[count] = dup(ends[0])) >= 0) count++;
  if (count < MANY)
    printf("%s: not with %d descriptors, only with %d: that is the limit here\n", backend->name, MANY, count);
  int refused = 0;
  for (int i = 0; i < count; i++) refused += watch(numbers[i], (uint32_t)numbers[i] + 1, GYRE_READABLE) != 0;
  CHECK(refused == 0);
  CHECK(nothing(numbers[0], (uint32_t)numbers[0] + 1));
  put(ends[1]);
  all_come(numbers, count, 64);
  for (int i = 0; i < count; i++) {
    backend->unwatch(state, numbers[i], (uint32_t)numbers[i] + 1);
    close(numbers[i]);
  }
  close_both(ends);
  free(numbers);
  CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
}
#endif

/* --- time and wake-ups --- */

static void a_wait_takes_its_time_and_no_more(void) {
  struct gyre_event event;
  int64_t start = now();
  CHECK(backend->wait(state, &event, 1, 0) == 0);
  CHECK(now() - start < LONG);

  start = now();
  while (now() - start < 20 * MILLISECOND) { /* it may end early, but then asks for what is left */
    CHECK(backend->wait(state, &event, 1, 20 * MILLISECOND - (now() - start)) == 0);
  }
  CHECK(now() - start < LONG);

  start = now();
  CHECK(backend->wait(state, &event, 1, 20 * MILLISECOND) == 0);
  CHECK(now() - start >= 19 * MILLISECOND);
  CHECK(backend->wait(state, &event, 1, 1) == 0);
}

static void a_wake_up_ends_the_next_wait(void) {
  struct gyre_event event;
  for (int i = 0; i < 3; i++) {
    int64_t start = now();
    backend->wake(state);
    CHECK(backend->wait(state, &event, 1, LONG) == 0);
    CHECK(now() - start < LONG);
  }
  int ended_early = 0;
  for (int i = 0; i < 4; i++) {
    int64_t start = now();
    CHECK(backend->wait(state, &event, 1, MOMENT) == 0);
    ended_early += now() - start < MOMENT - MILLISECOND;
  }
  CHECK(ended_early <= 1); /* it does not go on waking */
}

static void wake_ups_without_end_do_not_block(void) {
  struct gyre_event event;
  for (int i = 0; i < 100000; i++) backend->wake(state);
  for (int i = 0; i < 3; i++) {
    int64_t start = now();
    CHECK(backend->wait(state, &event, 1, LONG) == 0);
    CHECK(now() - start < LONG);
    backend->wake(state);
  }
}

static int wished, granted; /* atomic */

static void *wake_many_times(void *unused) {
  (void)unused;
  for (int i = 0; i < 2000; i++) {
    __atomic_fetch_add(&wished, 1, __ATOMIC_SEQ_CST);
    backend->wake(state);
    while (i % 10 == 0 && __atomic_load_n(&granted, __ATOMIC_SEQ_CST) == 0) sched_yield();
  }
  return NULL;
}

static void wake_ups_by_other_threads_are_not_lost(void) {
  struct gyre_event event;
  pthread_t threads[3];
  if (alone) return;
  wished = granted = 0;
  for (int i = 0; i < 3; i++) CHECK(pthread_create(&threads[i], NULL, wake_many_times, NULL) == 0);
  while (__atomic_load_n(&wished, __ATOMIC_SEQ_CST) < 3 * 2000) {
    CHECK(backend->wait(state, &event, 1, -1) == 0); /* a lost wake-up hangs here */
    __atomic_store_n(&granted, 1, __ATOMIC_SEQ_CST);
  }
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
}

static void *wake_once(void *unused) {
  (void)unused;
  backend->wake(state);
  return NULL;
}

static void a_wait_for_ever_ends_with_a_wake_up(void) {
  struct gyre_event event;
  if (alone) return;
  for (int i = 0; i < 2; i++) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, wake_once, NULL) == 0);
    CHECK(backend->wait(state, &event, 1, i == 0 ? -1 : INT64_MAX) == 0);
    pthread_join(thread, NULL);
  }
}

#ifndef _WIN32 /* signals, processes and limits */
static void wake_in_a_handler(int number) {
  (void)number;
  backend->wake(state);
}

static void a_signal_handler_may_wake(void) {
  struct gyre_event event;
  struct sigaction before, action = {.sa_handler = wake_in_a_handler};
  sigaction(SIGUSR1, &action, &before);
  errno = 4321;
  raise(SIGUSR1); /* the handler runs before it returns: nothing interrupts the wait */
  CHECK(errno == 4321);
  CHECK(backend->wait(state, &event, 1, -1) == 0);
  sigaction(SIGUSR1, &before, NULL);
}

/* --- processes --- */

/* What a child of the loop's process does: it lets go of what it inherited, and starts over. */
static int child(int fd, int other) {
  checks_failed = 0; /* those before are its parent's */
  backend->unwatch(state, fd, 1);
  int outcome = watch(other, 5, GYRE_READABLE); /* its parent must not hear of that */
  (void)outcome;
  backend->close(state);
  if (backend->open(&state) < 0) return 2;
  int ends[2];
  make_pipe(ends);
  put(ends[1]);
  CHECK(watch(ends[0], 1, GYRE_READABLE) == 0);
  CHECK(comes(ends[0], 1, GYRE_READABLE));
  backend->close(state);
  return checks_failed > 0;
}

static void a_child_does_not_disturb_its_parent(void) {
  int ends[2], others[2], status = -1;
  make_pair(ends);
  make_pair(others);
  CHECK(watch(ends[0], 1, GYRE_READABLE) == 0);
  CHECK(nothing(ends[0], 1));
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) _exit(child(ends[0], others[0]));
  CHECK(waitpid(pid, &status, 0) == pid);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  put(others[1]);
  CHECK(nothing(others[0], 5));
  put(ends[1]);
  CHECK(comes(ends[0], 1, GYRE_READABLE));
  close_both(ends);
  close_both(others);
}

static void without_a_descriptor_to_spare_it_does_not_open(void) {
  int before = lowest_free_descriptor();
  struct rlimit old, limit;
  CHECK(getrlimit(RLIMIT_NOFILE, &old) == 0);
  for (int spare = 0; spare < 4; spare++) {
    limit = (struct rlimit){(rlim_t)(before + spare), old.rlim_max};
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    void *other = NULL;
    int error = backend->open(&other);
    if (error == 0) backend->close(other);
    if (error == -EFAULT && !strcmp(backend->name, "kqueue")) error = -EMFILE; /* libkqueue's name of it */
    CHECK(error == 0 || error == -EMFILE);
    CHECK(spare > 0 || error == -EMFILE);
    CHECK(setrlimit(RLIMIT_NOFILE, &old) == 0);
    CHECK(free_again(before));
  }
}

#endif

static void it_describes_itself(void) {
  if (backend->describe) CHECK(backend->describe(state) && *backend->describe(state));
  if (backend->refusal) CHECK(backend->refusal(EMFILE) == NULL);
}

static void (*const cases[])(void) = {
    nothing_is_reported_without_a_watch,
    what_becomes_readable_is_reported,
    what_is_ready_already_is_reported,
    what_becomes_writable_is_reported,
    both_directions_are_reported,
    only_what_was_asked_for_is_reported,
    urgent_data_is_reported_where_the_system_tells,
    an_end_of_the_read_side_is_reported,
    a_half_close_leaves_the_write_side_open,
    an_end_of_the_own_write_side_leaves_the_read_side_open,
    an_error_is_readable_and_writable,
    a_change_is_reported_once,
    a_standing_watch_stays,
    a_level_watch_reports_again_and_again,
    asking_again_reports_the_present_state,
    a_later_watch_takes_the_place_of_an_earlier_one,
    an_ended_watch_is_silent,
    a_number_that_was_closed_and_given_out_anew,
    a_number_whose_file_lives_on_elsewhere,
    the_end_of_a_watch_lets_the_peer_see_a_close,
    what_cannot_be_waited_for_is_refused,
    a_number_that_was_a_file_is_watched_when_it_is_a_pipe,
    more_events_than_asked_for_come_later,
#ifdef _WIN32
    a_thousand_sockets,
#else
    ten_thousand_descriptors,
#endif
    a_wait_takes_its_time_and_no_more,
    a_wake_up_ends_the_next_wait,
    wake_ups_without_end_do_not_block,
    wake_ups_by_other_threads_are_not_lost,
    a_wait_for_ever_ends_with_a_wake_up,
#ifndef _WIN32
    a_signal_handler_may_wake,
    a_child_does_not_disturb_its_parent,
    without_a_descriptor_to_spare_it_does_not_open,
#endif
    it_describes_itself,
};

static void run_cases(void) {
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    int before = lowest_free_descriptor();
    int error = backend->open(&state);
    CHECK(error == 0);
    if (error < 0) return;
    cases[i]();
    backend->close(state);
    CHECK(free_again(before));
  }
}

static bool asked_for(const char *name, int count, char **names) {
  for (int i = 0; i < count; i++) {
    if (!strcmp(names[i], name)) return true;
  }
  return count == 0;
}

int main(int count, char **arguments) {
  begin_sockets();
#ifndef _WIN32
  signal(SIGPIPE, SIG_IGN);
  alarm(300); /* a hang is a failure */
#endif
  if (count > 1 && !strcmp(arguments[1], "alone")) {
    alone = true;
    count--;
    arguments++;
  }
  int ran = 0;
  for (const struct gyre_backend_choice *choice = gyre_backends; choice->name; choice++) {
    if (!asked_for(choice->name, count - 1, arguments + 1)) continue;
    backend = choice->operations;
    int error = backend ? backend->open(&state) : 0;
    if (!backend) {
      printf("%s: not tested: not built, %s\n", choice->name, choice->missing);
    } else if (error < 0) {
      printf("%s: not tested: does not open, %s\n", choice->name, strerror(-error));
    } else {
      backend->close(state);
      edge = backend->capabilities & GYRE_BACKEND_EDGE;
      unsigned before = checks_failed;
      run_cases();
      printf("%s: %s\n", choice->name, checks_failed == before ? "keeps the contract" : "FAILED");
      ran++;
    }
  }
  CHECK(ran > 0);
  return check_summary();
}
