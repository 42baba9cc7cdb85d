/* The iocp backend (Windows). A watch is one poll request to the socket driver (\Device\Afd), for a
 * socket of any kind. It completes once, through the loop's completion port. For files, pipes and
 * consoles `watch` returns -EPERM. */
#ifdef GYRE_HAVE_IOCP
#include "loop/backend.h"

#include <winsock2.h>

#include <io.h>
#include <winternl.h>

#define EVENTS_LIMIT 64
/* Maximum polls per driver handle: a cancel searches all polls of the handle. */
#define POLLS_LIMIT 32
#define TIMEOUT_LIMIT_MS 86400000 /* maximum of one wait; then the loop waits again */
#define CLOSE_LIMIT_MS 5000
#define EVERYTHING (GYRE_READABLE | GYRE_WRITABLE | GYRE_READ_ENDED | GYRE_WRITE_ENDED)

/* The driver's interface, which no header declares. */
#define IOCTL_POLL 0x12024
enum {
  AFD_RECEIVE = 0x1,
  AFD_RECEIVE_URGENT = 0x2,
  AFD_SEND = 0x4,
  AFD_DISCONNECT = 0x8, /* the peer's half-close */
  AFD_ABORT = 0x10,
  AFD_LOCAL_CLOSE = 0x20,
  AFD_ACCEPT = 0x80,
  AFD_CONNECT_FAIL = 0x100
};

struct afd_poll_information {
  LARGE_INTEGER timeout;
  ULONG handle_count, exclusive;
  struct {
    HANDLE handle;
    ULONG events;
    NTSTATUS status;
  } handle;
};

#ifndef SIO_BASE_HANDLE
#define SIO_BASE_HANDLE 0x48000022
#endif

/* A driver handle and the number of its polls. */
struct group {
  HANDLE driver;
  unsigned polls;
  struct group *next, *next_with_room;
};

struct poll {
  OVERLAPPED overlapped; /* must be first: completions point to it; begins like IO_STATUS_BLOCK */
  struct afd_poll_information information;
  struct group *group;
  struct poll *next; /* in state->spare */
  int fd;
  uint32_t generation;
  bool retired; /* the watch has ended, but the kernel still has the poll */
};

struct iocp_state {
  HANDLE port;
  struct poll **polls; /* by descriptor number; NULL if there is none */
  int capacity;
  struct group *groups, *with_room;
  struct poll *spare;
  unsigned in_flight;
  int woken; /* atomic: a wake-up is queued in the port */
};

static int open_group(struct iocp_state *state) {
  static const WCHAR name[] = L"\\Device\\Afd\\Gyre";
  UNICODE_STRING device = {sizeof(name) - sizeof(*name), sizeof(name), (WCHAR *)name};
  OBJECT_ATTRIBUTES attributes = {.Length = sizeof(attributes), .ObjectName = &device};
  IO_STATUS_BLOCK status;

  struct group *group = calloc(1, sizeof(*group));
  if (!group) return -ENOMEM;
  if (NtCreateFile(&group->driver, SYNCHRONIZE, &attributes, &status, NULL, 0, FILE_SHARE_READ | FILE_SHARE_WRITE,
                   FILE_OPEN, 0, NULL, 0) != 0)
    goto fail_create;
  if (!CreateIoCompletionPort(group->driver, state->port, 0, 0)) goto fail_port;
  SetFileCompletionNotificationModes(group->driver, FILE_SKIP_SET_EVENT_ON_HANDLE); /* saves work only */
  group->next = state->groups;
  group->next_with_room = state->with_room;
  state->groups = state->with_room = group;
  return 0;

fail_port:
  CloseHandle(group->driver);
fail_create:
  free(group);
  return -ENOSYS;
}

static int iocp_backend_open(void **result) {
  struct iocp_state *state = calloc(1, sizeof(*state));
  if (!state) return -ENOMEM;
  state->port = CreateIoCompletionPort(INVALID_HANDLE_VALUE, NULL, 0, 1);
  int error = state->port ? open_group(state) : -EMFILE;
  if (error == 0) {
    *result = state;
    return 0;
  }
  if (state->port) CloseHandle(state->port);
  free(state);
  return error;
}

static int make_room(struct iocp_state *state, int fd) {
  if (fd < state->capacity) return 0;
  int capacity = state->capacity ? state->capacity : 64;
  while (capacity <= fd) {
    if (capacity > INT32_MAX / 2) return -ENOMEM;
    capacity *= 2;
  }
  struct poll **polls = realloc(state->polls, (size_t)capacity * sizeof(*polls));
  if (!polls) return -ENOMEM;
  while (state->capacity < capacity) polls[state->capacity++] = NULL;
  state->polls = polls;
  return 0;
}

static struct poll *new_poll(struct iocp_state *state) {
  struct poll *poll = state->spare;
  if (poll) {
    state->spare = poll->next;
  } else if (!(poll = malloc(sizeof(*poll)))) {
    return NULL;
  }
  if (!state->with_room && open_group(state) < 0) {
    poll->next = state->spare;
    state->spare = poll;
    return NULL;
  }
  *poll = (struct poll){.group = state->with_room};
  if (++poll->group->polls == POLLS_LIMIT) state->with_room = poll->group->next_with_room;
  state->in_flight++;
  return poll;
}

static void free_poll(struct iocp_state *state, struct poll *poll) {
  struct group *group = poll->group;
  if (group->polls-- == POLLS_LIMIT) {
    group->next_with_room = state->with_room;
    state->with_room = group;
  }
  state->in_flight--;
  poll->next = state->spare;
  state->spare = poll;
}

/* Cancels a poll. If the poll has just completed, the port still delivers its completion. */
static void retire(struct iocp_state *state, struct poll *poll) {
  poll->retired = true;
  state->polls[poll->fd] = NULL;
  CancelIoEx(poll->group->driver, &poll->overlapped);
}

static void iocp_backend_unwatch(void *opaque, int fd, uint32_t generation) {
  struct iocp_state *state = opaque;
  struct poll *poll = fd >= 0 && fd < state->capacity ? state->polls[fd] : NULL;
  if (poll && poll->generation == generation) retire(state, poll);
}

/* Sets *base to the socket beneath layered service providers. Returns 0 or -errno. */
static int base_socket(int fd, SOCKET *base) {
  DWORD size;
  intptr_t handle = _get_osfhandle(fd);
  if (handle == -1) return -EBADF;
  if (WSAIoctl((SOCKET)handle, SIO_BASE_HANDLE, NULL, 0, base, sizeof(*base), &size, NULL, NULL) == 0) return 0;
  return -EPERM;
}

static int refusal(NTSTATUS status) {
  switch ((ULONG)status) {
  case 0xC0000008: return -EBADF;  /* STATUS_INVALID_HANDLE */
  case 0xC0000024: return -EPERM;  /* STATUS_OBJECT_TYPE_MISMATCH */
  case 0xC000009A: return -ENOMEM; /* STATUS_INSUFFICIENT_RESOURCES */
  default: return -EIO;
  }
}

static ULONG wanted(unsigned interest) {
  ULONG events = AFD_ABORT | AFD_CONNECT_FAIL | AFD_LOCAL_CLOSE;
  if (interest & GYRE_READABLE) events |= AFD_RECEIVE | AFD_ACCEPT | AFD_DISCONNECT;
  if (interest & GYRE_PRIORITY) events |= AFD_RECEIVE_URGENT;
  if (interest & GYRE_WRITABLE) events |= AFD_SEND;
  return events;
}

static int iocp_backend_watch(void *opaque, int fd, uint32_t generation, unsigned interest, uint32_t previous) {
  struct iocp_state *state = opaque;
  SOCKET socket;
  int error = fd < 0 ? -EBADF : make_room(state, fd);
  if (error < 0) return error;
  if (state->polls[fd]) retire(state, state->polls[fd]);
  if ((error = base_socket(fd, &socket)) < 0) return error;
  struct poll *poll = new_poll(state);
  if (!poll) return -ENOMEM;

  poll->fd = fd;
  poll->generation = generation;
  poll->information.timeout.QuadPart = INT64_MAX;
  poll->information.handle_count = 1;
  poll->information.handle.handle = (HANDLE)socket;
  poll->information.handle.events = wanted(interest);
  NTSTATUS status = NtDeviceIoControlFile(poll->group->driver, NULL, NULL, &poll->overlapped,
                                          (IO_STATUS_BLOCK *)&poll->overlapped, IOCTL_POLL, &poll->information,
                                          sizeof(poll->information), &poll->information, sizeof(poll->information));
  if (status < 0) { /* a failed call gets no completion; a call that succeeds at once gets one */
    free_poll(state, poll);
    return refusal(status);
  }
  state->polls[fd] = poll;
  return 0;
}

static unsigned readiness(const struct poll *poll) {
  if ((NTSTATUS)poll->overlapped.Internal < 0) return EVERYTHING;
  ULONG events = poll->information.handle_count ? poll->information.handle.events : 0;
  unsigned ready = 0;
  if (events & (AFD_RECEIVE | AFD_ACCEPT)) ready |= GYRE_READABLE;
  if (events & AFD_RECEIVE_URGENT) ready |= GYRE_PRIORITY;
  if (events & AFD_SEND) ready |= GYRE_WRITABLE;
  if (events & AFD_DISCONNECT) ready |= GYRE_READABLE | GYRE_READ_ENDED;
  if (events & (AFD_ABORT | AFD_CONNECT_FAIL)) ready |= EVERYTHING;
  return events & AFD_LOCAL_CLOSE ? 0 : ready; /* epoll does not report a close either */
}

/* Fills `event`. Returns true if it must be reported. */
static bool translate(struct iocp_state *state, OVERLAPPED *overlapped, struct gyre_event *event) {
  if (!overlapped) {
    __atomic_store_n(&state->woken, 0, __ATOMIC_SEQ_CST);
    return false;
  }
  struct poll *poll = (struct poll *)overlapped;
  unsigned ready = poll->retired ? 0 : readiness(poll);
  if (!poll->retired) state->polls[poll->fd] = NULL;
  *event = (struct gyre_event){.fd = poll->fd, .generation = poll->generation, .ready = ready | GYRE_ENDED};
  free_poll(state, poll);
  return ready != 0;
}

static int iocp_backend_wait(void *opaque, struct gyre_event *events, int capacity, int64_t timeout_ns) {
  struct iocp_state *state = opaque;
  OVERLAPPED_ENTRY entries[EVENTS_LIMIT];
  ULONG count = 0;
  int64_t milliseconds = timeout_ns / 1000000 + (timeout_ns % 1000000 > 0);
  if (milliseconds > TIMEOUT_LIMIT_MS) milliseconds = TIMEOUT_LIMIT_MS;
  if (!GetQueuedCompletionStatusEx(state->port, entries, capacity < EVENTS_LIMIT ? (ULONG)capacity : EVENTS_LIMIT,
                                   &count, timeout_ns < 0 ? INFINITE : (DWORD)milliseconds, FALSE))
    return GetLastError() == WAIT_TIMEOUT ? 0 : -EIO;
  int filled = 0;
  for (ULONG i = 0; i < count; i++) filled += translate(state, entries[i].lpOverlapped, &events[filled]);
  return filled;
}

/* Does nothing if a wake-up is already queued in the port. */
static void iocp_backend_wake(void *opaque) {
  struct iocp_state *state = opaque;
  if (__atomic_exchange_n(&state->woken, 1, __ATOMIC_SEQ_CST)) return;
  DWORD saved_error = GetLastError();
  PostQueuedCompletionStatus(state->port, 0, 0, NULL);
  SetLastError(saved_error);
}

/* Waits until the kernel has completed each poll. Leaks polls that are not completed in time. */
static void iocp_backend_close(void *opaque) {
  struct iocp_state *state = opaque;
  struct gyre_event events[EVENTS_LIMIT];
  for (int fd = 0; fd < state->capacity; fd++) {
    if (state->polls[fd]) retire(state, state->polls[fd]);
  }
  for (int waited_ms = 0; state->in_flight && waited_ms < CLOSE_LIMIT_MS; waited_ms += 100)
    iocp_backend_wait(state, events, EVENTS_LIMIT, 100 * INT64_C(1000000));
  while (state->groups) {
    struct group *group = state->groups;
    state->groups = group->next;
    CloseHandle(group->driver);
    free(group);
  }
  while (state->spare) {
    struct poll *poll = state->spare;
    state->spare = poll->next;
    free(poll);
  }
  CloseHandle(state->port);
  free(state->polls);
  free(state);
}

static const char *iocp_backend_refusal(int error) {
  return error == ENOSYS ? "the driver \\Device\\Afd does not open" : NULL;
}

GYRE_BACKEND(iocp, .refusal = iocp_backend_refusal);
#endif
