/*
 * The plain C test of what only the io_uring backend has: stepping down where the kernel knows
 * less, rings that change threads. It includes the backend's source, so that it can
 * stand between it and the kernel. Run by test/loop/uring_test.rb, also with sanitizers. What all
 * backends do is in backend_test.c.
 */
#include "feature.h"

#include <liburing.h>

static int limited_init(unsigned entries, struct io_uring *ring, struct io_uring_params *parameters);
#define io_uring_queue_init_params limited_init
#include "loop/backend_io_uring.c"
#undef io_uring_queue_init_params

#include "check.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>

/* The kernel that is played: what it refuses (errno), which flags it knows, which features it
 * lacks. */
static int refused;
static unsigned known = ~0u, lacking;

static int limited_init(unsigned entries, struct io_uring *ring, struct io_uring_params *parameters) {
  const unsigned always = IORING_SETUP_R_DISABLED | IORING_SETUP_CLAMP | IORING_SETUP_CQSIZE;
  if (refused) return -refused;
  if (parameters->flags & ~(known | always)) return -EINVAL;
  int error = io_uring_queue_init_params(entries, ring, parameters);
  parameters->features &= ~lacking;
  return error;
}

#define LONG INT64_C(10000000000)
static const struct gyre_backend_operations *const backend = &gyre_backend_io_uring;
static void *state;

/* The next report of this descriptor and generation; those of earlier ones come before it. */
static struct gyre_event next_event(int fd, uint32_t generation) {
  struct gyre_event event = {.fd = -2};
  for (int i = 0; i < 100; i++) {
    if (backend->wait(state, &event, 1, LONG) != 1 || event.fd != fd) continue;
    if (event.generation == generation) return event;
  }
  event.fd = -2;
  return event;
}

static void a_pipe_is_watched(unsigned interest) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  for (uint32_t generation = 1; generation < 4; generation++) {
    CHECK(backend->watch(state, ends[0], generation, GYRE_READABLE | interest, generation - 1) == 0);
    CHECK(write(ends[1], "x", 1) == 1);
    struct gyre_event event = next_event(ends[0], generation);
    CHECK(event.fd == ends[0] && event.ready & GYRE_READABLE);
    backend->wake(state);
    CHECK(backend->wait(state, &event, 1, -1) >= 0); /* does not hang */
  }
  backend->unwatch(state, ends[0], 3);
  close(ends[0]);
  close(ends[1]);
}

/* --- stepping down --- */

static void each_kernel_gets_the_flags_that_it_knows(void) {
  const unsigned old = IORING_SETUP_SUBMIT_ALL,
                 cooperates = old | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG;
  const struct {
    unsigned known;
    const char *flags;
  } kernels[] = {
      {~0u, "SUBMIT_ALL, SINGLE_ISSUER, DEFER_TASKRUN, TASKRUN_FLAG"},
      {cooperates | IORING_SETUP_SINGLE_ISSUER, "SUBMIT_ALL, SINGLE_ISSUER, COOP_TASKRUN, TASKRUN_FLAG"},
      {cooperates, "SUBMIT_ALL, COOP_TASKRUN, TASKRUN_FLAG"},
      {old, "SUBMIT_ALL"},
      {0, "no flags"},
  };
  for (size_t i = 0; i < sizeof(kernels) / sizeof(*kernels); i++) {
    known = kernels[i].known;
    CHECK(backend->open(&state) == 0);
    const char *text = backend->describe(state);
    CHECK(!strncmp(text, kernels[i].flags, strlen(kernels[i].flags)));
    a_pipe_is_watched(0);
    a_pipe_is_watched(GYRE_STANDING);
    backend->close(state);
  }
  known = ~0u;
}

static void an_older_kernel_is_refused(void) {
  lacking = IORING_FEAT_RSRC_TAGS;
  CHECK(backend->open(&state) == -EOPNOTSUPP);
  CHECK(backend->refusal(EOPNOTSUPP) != NULL);
  lacking = 0;
}

static void a_refusal_has_its_reason(void) {
  const int errors[] = {ENOSYS, EPERM, ENOMEM};
  for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
    refused = errors[i];
    CHECK(backend->open(&state) == -errors[i]);
    CHECK(backend->refusal(errors[i]) != NULL);
  }
  refused = EINVAL; /* knows not even the oldest flags */
  CHECK(backend->open(&state) == -EINVAL);
  refused = 0;
}

/* --- processes --- */

/* Its memory is a copy there, and the ring is its parent's. */
static void a_child_only_lets_go(void) {
  CHECK(backend->open(&state) == 0);
  int ends[2], status = -1;
  CHECK(pipe(ends) == 0);
  CHECK(backend->watch(state, ends[0], 1, GYRE_READABLE, 0) == 0);
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    struct gyre_event event;
    checks_failed = 0;
    CHECK(backend->wait(state, &event, 1, 0) == -EBADF);
    CHECK(backend->watch(state, ends[0], 2, GYRE_READABLE, 1) == -EBADF);
    backend->unwatch(state, ends[0], 1);
    backend->close(state);
    _exit(checks_failed > 0);
  }
  CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(write(ends[1], "x", 1) == 1);
  struct gyre_event event = next_event(ends[0], 1);
  CHECK(event.fd == ends[0] && event.ready & GYRE_READABLE);
  close(ends[0]);
  close(ends[1]);
  backend->close(state);
}

/* --- threads --- */

static void *wait_elsewhere(void *result) {
  struct gyre_event event;
  *(int *)result = backend->wait(state, &event, 1, 1000000);
  return NULL;
}

static int waited_elsewhere(void) {
  int result = 1;
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, wait_elsewhere, &result) == 0);
  pthread_join(thread, NULL);
  return result;
}

/* The last case: from the first such change on no ring is bound to a thread. */
static void a_ring_that_changes_threads_is_opened_anew(void) {
  struct gyre_event event;
  CHECK(backend->open(&state) == 0);
  CHECK(waited_elsewhere() == 0); /* made here, used there */
  CHECK(backend->wait(state, &event, 1, 1000000) == -EEXIST);
  backend->close(state);

  CHECK(backend->open(&state) == 0);
  CHECK(!strstr(backend->describe(state), "SINGLE_ISSUER"));
  CHECK(waited_elsewhere() == 0);
  CHECK(backend->wait(state, &event, 1, 0) == 0);
  a_pipe_is_watched(0);
  backend->close(state);
}

int main(void) {
  if (backend->open(&state) < 0) {
    printf("not tested: io_uring does not open here\n");
    return 0;
  }
  backend->close(state);
  alarm(120); /* a hang is a failure */
  each_kernel_gets_the_flags_that_it_knows();
  an_older_kernel_is_refused();
  a_refusal_has_its_reason();
  a_child_only_lets_go();
  a_ring_that_changes_threads_is_opened_anew();
  return check_summary();
}
