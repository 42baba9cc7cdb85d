/* The io_uring backend (Linux 5.13, by liburing). One io_uring_enter per turn submits requests and
 * fetches completions; a turn with neither makes no system call. Contract: backend.h.
 *
 * A poll keeps its file open, so the peer would not notice a close(2). Therefore a poll is
 * one-shot, unless the caller ends it before the close (GYRE_STANDING). The kernel adds POLLRDHUP
 * to each poll (IO_POLL_UNMASK). After a peer's half-close, POLLRDHUP would end a one-shot poll for
 * writing at once. Therefore polls with GYRE_READ_ENDED are multishot. */
#ifdef GYRE_HAVE_IO_URING
#include "loop/backend.h"
#include "loop/forks.h"
#include "loop/wakeup.h"

#include <liburing.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>

#define SUBMISSIONS 256
#define COMPLETIONS 2048 /* the kernel itself stores further completions (IORING_FEAT_NODROP) */

#define IGNORED UINT64_C(0)
#define WAKEUP UINT64_C(2)

/* RSRC_TAGS stands for multishot polls: Linux 5.13 introduced both. */
#define FEATURES (IORING_FEAT_NODROP | IORING_FEAT_EXT_ARG | IORING_FEAT_POLL_32BITS | IORING_FEAT_RSRC_TAGS)

/* Flags, tried in this order. SINGLE_ISSUER with DEFER_TASKRUN delays the kernel's completion work
 * until the thread enters the ring, so this work does not interrupt Ruby. */
static const struct flags {
  unsigned bits;
  const char *names;
} ladder[] = {
    {IORING_SETUP_SUBMIT_ALL | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
     "SUBMIT_ALL, SINGLE_ISSUER, DEFER_TASKRUN, TASKRUN_FLAG"}, /* 6.1 */
    {IORING_SETUP_SUBMIT_ALL | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
     "SUBMIT_ALL, SINGLE_ISSUER, COOP_TASKRUN, TASKRUN_FLAG"}, /* 6.0 */
    {IORING_SETUP_SUBMIT_ALL | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
     "SUBMIT_ALL, COOP_TASKRUN, TASKRUN_FLAG"}, /* 5.19 */
    {IORING_SETUP_SUBMIT_ALL, "SUBMIT_ALL"},    /* 5.18 */
    {0, "no flags"},
};
#define STEPS (sizeof(ladder) / sizeof(*ladder))

/* Atomic; true once two system threads have used one ring: later rings are not bound to a thread.
 * Ruby's M:N threads (of Ractors, or all if RUBY_MN_THREADS=1) change their system thread. */
static bool threads_change;

struct uring_state {
  struct io_uring ring;
  struct gyre_wakeup wakeup;
  unsigned forks;
  bool enabled;      /* set at the first use, which binds the ring to its thread if `bound` */
  bool wakeup_armed; /* the wake-up's descriptor is polled */
  bool bound;        /* only the thread that enabled the ring may use it */
  unsigned quiet;    /* flag for requests that need no completion on success (Linux 5.17), or 0 */
  char description[128];
};

static int set_up(struct uring_state *state) {
  const char *threads = getenv("RUBY_MN_THREADS");
  if (threads && *threads == '1') __atomic_store_n(&threads_change, true, __ATOMIC_RELAXED);
  bool any_thread = __atomic_load_n(&threads_change, __ATOMIC_RELAXED);

  int error = -EINVAL;
  for (size_t step = 0; step < STEPS && error == -EINVAL; step++) {
    if (any_thread && ladder[step].bits & IORING_SETUP_SINGLE_ISSUER) continue;
    struct io_uring_params parameters = {.flags = ladder[step].bits | IORING_SETUP_R_DISABLED | IORING_SETUP_CLAMP |
                                                  IORING_SETUP_CQSIZE,
                                         .cq_entries = COMPLETIONS};
    error = io_uring_queue_init_params(SUBMISSIONS, &state->ring, &parameters);
    if (error < 0) continue;
    if ((parameters.features & FEATURES) != FEATURES) {
      io_uring_queue_exit(&state->ring);
      return -EOPNOTSUPP;
    }
    state->bound = ladder[step].bits & IORING_SETUP_SINGLE_ISSUER;
    if (parameters.features & IORING_FEAT_CQE_SKIP) state->quiet = IOSQE_CQE_SKIP_SUCCESS;
    snprintf(state->description, sizeof(state->description), "%s", ladder[step].names);
  }
  return error;
}

static int io_uring_backend_open(void **result) {
  struct uring_state *state = calloc(1, sizeof(*state));
  if (!state) return -ENOMEM;

  gyre_forks_count();
  state->forks = gyre_forks;
  int error = set_up(state);
  if (error < 0) goto fail_set_up;
  if ((error = gyre_wakeup_open(&state->wakeup)) < 0) goto fail_wakeup;
  *result = state;
  return 0;

fail_wakeup:
  io_uring_queue_exit(&state->ring);
fail_set_up:
  free(state);
  return error;
}

/* Also called in a forked child, where it only unmaps memory and closes descriptors. */
static void io_uring_backend_close(void *opaque) {
  struct uring_state *state = opaque;
  gyre_wakeup_close(&state->wakeup);
  io_uring_queue_exit(&state->ring);
  free(state);
}

static const char *io_uring_backend_describe(const void *state) {
  return ((const struct uring_state *)state)->description;
}

static const char *io_uring_backend_refusal(int error) {
  switch (error) {
  case ENOSYS: return "this kernel has no io_uring, or a filter (seccomp) hides it";
  case EPERM: return "io_uring is switched off (kernel.io_uring_disabled, or a filter of the container)";
  case EOPNOTSUPP: return "this kernel's io_uring is older than Linux 5.13";
  case ENOMEM: return "there is not enough memory that may be locked (ulimit -l)";
  default: return NULL;
  }
}

/* Submits all requests. Returns -EEXIST if the ring is bound to another thread. */
static int flush(struct uring_state *state);

/* Sets *submission to a free slot. If the queue is full, submits it first. */
static int next_submission(struct uring_state *state, struct io_uring_sqe **submission) {
  *submission = io_uring_get_sqe(&state->ring);
  if (*submission) return 0;
  int error = flush(state);
  if (error < 0) return error;
  *submission = io_uring_get_sqe(&state->ring);
  return *submission ? 0 : -EAGAIN;
}

/* Enables the ring and polls the wake-up's descriptor, unless this is done already. */
static int prepare(struct uring_state *state) {
  if (!state->enabled) {
    /* Does the work of io_uring_enable_rings, which liburing 2.3 declares but does not export. */
    int error = io_uring_register((unsigned)state->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
    if (error < 0) return error;
    state->enabled = true;
  }
  if (state->wakeup_armed) return 0;
  struct io_uring_sqe *submission = io_uring_get_sqe(&state->ring);
  if (!submission) return 0; /* the queue is full: the next call arms the wake-up */
  io_uring_prep_poll_multishot(submission, state->wakeup.read_fd, POLLIN);
  submission->user_data = WAKEUP;
  state->wakeup_armed = true;
  return 0;
}

/* Remembers -EEXIST: a thread other than the bound one has used the ring. */
static int noticed(int error) {
  if (error == -EEXIST) __atomic_store_n(&threads_change, true, __ATOMIC_RELAXED);
  return error;
}

static int flush(struct uring_state *state) {
  int error = prepare(state);
  if (error < 0) return noticed(error);
  while (io_uring_sq_ready(&state->ring) > 0) {
    error = io_uring_submit(&state->ring);
    if (error < 0 && error != -EINTR) return noticed(error);
  }
  return 0;
}

/* Returns 0 or -errno; -EPERM for files and directories, as epoll does. */
static int can_be_watched(int fd) {
  struct stat status;
  if (fstat(fd, &status) < 0) return -errno;
  return S_ISREG(status.st_mode) || S_ISDIR(status.st_mode) ? -EPERM : 0;
}

static uint64_t watch_mark(int fd, uint32_t generation) { return (uint64_t)generation << 32 | (uint32_t)fd << 1 | 1; }

static void io_uring_backend_unwatch(void *opaque, int fd, uint32_t generation) {
  struct uring_state *state = opaque;
  struct io_uring_sqe *submission;
  if (state->forks != gyre_forks || next_submission(state, &submission) < 0) return;
  /* Does not use POLL_REMOVE: during a report it fails with -EALREADY, and the poll goes on. */
  io_uring_prep_cancel64(submission, watch_mark(fd, generation), 0);
  submission->user_data = IGNORED;
  submission->flags |= state->quiet;
}

static int io_uring_backend_watch(void *opaque, int fd, uint32_t generation, unsigned interest, uint32_t previous) {
  struct uring_state *state = opaque;
  struct io_uring_sqe *submission;
  if (state->forks != gyre_forks) return -EBADF;
  if (previous) io_uring_backend_unwatch(state, fd, previous);
  int error = interest & GYRE_BLOCKED ? 0 : can_be_watched(fd);
  if (error == 0) error = next_submission(state, &submission);
  if (error < 0) return error;

  unsigned events = 0;
  if (interest & GYRE_READABLE) events |= POLLIN | POLLRDHUP;
  if (interest & GYRE_PRIORITY) events |= POLLPRI;
  if (interest & GYRE_WRITABLE) events |= POLLOUT;
  io_uring_prep_poll_add(submission, fd, events);
  if ((interest & (GYRE_STANDING | GYRE_LEVEL)) == GYRE_STANDING || interest & GYRE_READ_ENDED)
    submission->len = IORING_POLL_ADD_MULTI;
  submission->user_data = watch_mark(fd, generation);
  return 0;
}

static unsigned ready(int result) {
  if (result < 0) return GYRE_READABLE | GYRE_WRITABLE | GYRE_READ_ENDED | GYRE_WRITE_ENDED;
  unsigned bits = (unsigned)result, ready = 0;
  if (bits & (POLLIN | POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) ready |= GYRE_READABLE;
  if (bits & (POLLOUT | POLLHUP | POLLERR | POLLNVAL)) ready |= GYRE_WRITABLE;
  if (bits & POLLPRI) ready |= GYRE_PRIORITY;
  if (bits & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) ready |= GYRE_READ_ENDED;
  if (bits & (POLLHUP | POLLERR | POLLNVAL)) ready |= GYRE_WRITE_ENDED;
  return ready;
}

/* Fills `event`. Returns true if it must be reported. */
static bool translate(struct uring_state *state, const struct io_uring_cqe *completion, struct gyre_event *event) {
  uint64_t mark = completion->user_data;
  bool more = completion->flags & IORING_CQE_F_MORE;
  if (mark == WAKEUP && !more) state->wakeup_armed = false;
  /* Ignores polls that the backend cancelled. In an unbound ring, the end of a thread also cancels
   * its polls, and the loop must learn of this. */
  if (!(mark & 1) || (completion->res == -ECANCELED && state->bound)) return false;
  event->fd = (int)((uint32_t)mark >> 1);
  event->generation = (uint32_t)(mark >> 32);
  event->ready = ready(completion->res) | (more ? 0 : GYRE_ENDED);
  return true;
}

static int harvest(struct uring_state *state, struct gyre_event *events, int capacity) {
  struct io_uring_cqe *completion;
  unsigned head, taken = 0;
  int filled = 0;
  io_uring_for_each_cqe(&state->ring, head, completion) {
    if (filled == capacity) break;
    taken++;
    if (translate(state, completion, &events[filled])) filled++;
  }
  io_uring_cq_advance(&state->ring, taken);
  return filled;
}

/* True if there are requests to submit or completions to fetch. */
static bool is_due(struct uring_state *state) {
  if (!state->enabled || !state->wakeup_armed || io_uring_sq_ready(&state->ring) > 0) return true;
  return __atomic_load_n(state->ring.sq.kflags, __ATOMIC_RELAXED) & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW);
}

static int enter(struct uring_state *state, int64_t timeout_ns) {
  int error = prepare(state);
  if (error < 0) return error;
  if (timeout_ns == 0) {
    do { /* older kernels stop at a failing submission */
      error = io_uring_submit_and_get_events(&state->ring);
    } while (error > 0 && io_uring_sq_ready(&state->ring) > 0);
    return error;
  }
  struct __kernel_timespec timeout = {.tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000};
  struct io_uring_cqe *completion;
  return io_uring_submit_and_wait_timeout(&state->ring, &completion, 1, timeout_ns < 0 ? NULL : &timeout, NULL);
}

static int io_uring_backend_wait(void *opaque, struct gyre_event *events, int capacity, int64_t timeout_ns) {
  struct uring_state *state = opaque;
  if (state->forks != gyre_forks) return -EBADF;
  /* Returns even if it fills no event, because a completion may be a wake-up. */
  if (timeout_ns != 0 && io_uring_cq_ready(&state->ring) > 0) return harvest(state, events, capacity);
  if (timeout_ns != 0 || is_due(state)) {
    int error = enter(state, timeout_ns);
    /* Ignores a timeout, a signal, and a kernel that is short of memory or room. */
    if (error < 0 && error != -ETIME && error != -EINTR && error != -EAGAIN && error != -EBUSY) return noticed(error);
  }
  return harvest(state, events, capacity);
}

static void io_uring_backend_wake(void *opaque) { gyre_wakeup_signal(&((struct uring_state *)opaque)->wakeup); }

GYRE_BACKEND(io_uring, .describe = io_uring_backend_describe, .refusal = io_uring_backend_refusal);
#endif
