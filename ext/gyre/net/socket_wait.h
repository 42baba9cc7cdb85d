/* Waits for a socket by this thread's scheduler. If there is none, blocks only the thread. */
#pragma once

#include "feature.h"

#include <ruby.h>

struct gyre_scheduler;

/* Returns the current fiber's native scheduler; NULL if the fiber has another scheduler or none. */
struct gyre_scheduler *gyre_socket_scheduler(void);

/* Returns nanoseconds of the clock that gyre_socket_wait uses. */
int64_t gyre_socket_now(void);

/* Waits up to `timeout_ns` (negative: no limit) for one of `events`. Returns false after the
 * timeout. Call it after -EAGAIN. The caller checks for a close during the wait. */
bool gyre_socket_wait(VALUE io, int fd, unsigned events, int64_t timeout_ns);

/* Records that a call has emptied (GYRE_READABLE) or filled (GYRE_WRITABLE) the stream socket. */
void gyre_socket_drained(VALUE io, int fd, unsigned events);

/* True if a call would block: wait before the call. */
bool gyre_socket_is_drained(VALUE io, int fd, unsigned events);

/* True if the loop has asked the kernel within the last millisecond. */
bool gyre_socket_looked_lately(void);

/* Lets other fibers run that have waited long. Call it before calls that may never wait. */
void gyre_socket_give_way(void);

/* True if the IO is open with this descriptor. Never raises. */
bool gyre_socket_is_open(VALUE io, int fd);
