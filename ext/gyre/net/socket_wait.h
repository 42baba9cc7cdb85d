/*
 * How a method of net/'s classes waits for its socket: by the scheduler of its own thread, or
 * blocking that thread only.
 */
#ifndef GYRE_SOCKET_WAIT_H
#define GYRE_SOCKET_WAIT_H

#include <ruby.h>
#include <stdbool.h>
#include <stdint.h>

struct gyre_scheduler;

/* The native scheduler by which the current fiber waits; NULL where it waits another way. */
struct gyre_scheduler *gyre_socket_scheduler(void);

/* The time that gyre_socket_wait's limit goes by. */
int64_t gyre_socket_now(void);

/* Until the descriptor is ready for one of `events` (a call has just answered "would block"), or
 * `timeout_ns` is over; a negative one waits for ever. False after the time. What an IO's close in
 * another fiber or thread means is the caller's to find out. */
bool gyre_socket_wait(VALUE io, int fd, unsigned events, int64_t timeout_ns);

/* A call has moved less than it was asked to, because the socket, a stream, has no more for now. */
void gyre_socket_drained(VALUE io, int fd, unsigned events);

/* Whether a call would answer "would block", by what was seen last: then a wait may come first. */
bool gyre_socket_is_drained(VALUE io, int fd, unsigned events);

/* Before a call that may go on for ever without a wait: lets others run that have waited for
 * long. */
void gyre_socket_give_way(void);

/* Whether the IO is open and still has this descriptor. Raises nothing. */
bool gyre_socket_is_open(VALUE io, int fd);

#endif
