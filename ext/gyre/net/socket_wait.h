/* Waits for a socket by this thread's scheduler, or blocks only the thread. */
#pragma once

#include <ruby.h>
#include <stdbool.h>
#include <stdint.h>

struct gyre_scheduler;

/* Returns the current fiber's native scheduler; NULL if it waits otherwise. */
struct gyre_scheduler *gyre_socket_scheduler(void);

/* The clock of gyre_socket_wait. */
int64_t gyre_socket_now(void);

/* Waits for one of `events` after "would block", up to `timeout_ns` (negative: no limit). False
 * after that. The caller handles a close meanwhile. */
bool gyre_socket_wait(VALUE io, int fd, unsigned events, int64_t timeout_ns);

/* Records that a call has emptied (or filled) the stream socket. */
void gyre_socket_drained(VALUE io, int fd, unsigned events);

/* True if a call would block: the wait comes first. */
bool gyre_socket_is_drained(VALUE io, int fd, unsigned events);

/* True if the loop has asked the kernel within the last millisecond. */
bool gyre_socket_looked_lately(void);

/* Lets long-waiting fibers run, before calls that may never wait. */
void gyre_socket_give_way(void);

/* True if the IO is open with this descriptor. Never raises. */
bool gyre_socket_is_open(VALUE io, int fd);
