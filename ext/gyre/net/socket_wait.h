/*
 * Waits for a socket by the scheduler of the current thread, or blocks only that thread.
 */
#ifndef GYRE_SOCKET_WAIT_H
#define GYRE_SOCKET_WAIT_H

#include <ruby.h>
#include <stdbool.h>
#include <stdint.h>

struct gyre_scheduler;

/* The native scheduler of the current fiber; NULL if it waits by other means. */
struct gyre_scheduler *gyre_socket_scheduler(void);

/* The clock of gyre_socket_wait. */
int64_t gyre_socket_now(void);

/*
 * Waits until the descriptor is ready for one of `events`, after "would block", or for
 * `timeout_ns`; negative: no limit. False after the time. The caller handles a close of the IO
 * meanwhile.
 */
bool gyre_socket_wait(VALUE io, int fd, unsigned events, int64_t timeout_ns);

/* Records that a call has moved less than requested: the stream socket has no more for now. */
void gyre_socket_drained(VALUE io, int fd, unsigned events);

/* True if a call is known to return "would block": the wait may come first. */
bool gyre_socket_is_drained(VALUE io, int fd, unsigned events);

/* Lets others run that have waited for long. Called before calls that may never wait. */
void gyre_socket_give_way(void);

/* True if the IO is open with this descriptor. Raises nothing. */
bool gyre_socket_is_open(VALUE io, int fd);

#endif
