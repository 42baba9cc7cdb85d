/*
 * A transport: a connected stream socket with its buffers, plain or TLS. Protocols and Gyre::Transport stand on it; nothing
 * above net/ calls recv or send. It is a state machine: each call moves what it can and never waits, and says what to wait
 * for. No ruby.h.
 *
 * The two sides end apart: a peer that sends no more may still read.
 *
 *   read:  OPEN --end of stream--> ENDED       write:  OPEN --gyre_transport_end--> ENDING --all was sent--> ENDED
 *             \---error---------> FAILED                  \---error--> FAILED <---error---/
 */
#ifndef GYRE_NET_TRANSPORT_H
#define GYRE_NET_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct gyre_transport;

/* Bytes from `offset` on. Allocated with the first byte, freed with the last one. */
struct gyre_bytes {
  char *bytes;
  size_t offset, length, capacity; /* length counts from `bytes` on */
};

enum gyre_side_state { GYRE_SIDE_OPEN, GYRE_SIDE_ENDING, GYRE_SIDE_ENDED, GYRE_SIDE_FAILED };

struct gyre_side {
  uint8_t state;
  uint8_t wants; /* after -EAGAIN: GYRE_READABLE or GYRE_WRITABLE of the descriptor; with TLS not always the side's own */
  int error;     /* -errno, when it has failed */
};

/* Calls return -errno; -EAGAIN with side->wants set. */
struct gyre_transport_operations {
  int (*handshake)(struct gyre_transport *transport); /* 0 when it is over; NULL: there is none */
  ssize_t (*receive)(struct gyre_transport *transport, void *bytes, size_t length); /* 0: the end */
  ssize_t (*send)(struct gyre_transport *transport, const void *bytes, size_t length);
  int (*flush)(struct gyre_transport *transport); /* sends what the layer itself holds; NULL: it holds nothing */
  int (*end)(struct gyre_transport *transport);   /* tells the peer that no more will come */
  bool (*pending)(const struct gyre_transport *transport); /* bytes lie here of which the kernel will not tell */
  void (*release)(struct gyre_transport *transport);       /* frees transport->state */
};

struct gyre_transport {
  const struct gyre_transport_operations *operations;
  void *state; /* of the operations */
  int fd;      /* -1 once closed */
  bool handshaken;
  struct gyre_side read, write;
  struct gyre_bytes input, output;
  uint64_t received_bytes, sent_bytes; /* of the protocol above, not of TLS records */
};

extern const struct gyre_transport_operations gyre_transport_plain;

void gyre_transport_init(struct gyre_transport *transport, int fd, const struct gyre_transport_operations *operations);
void gyre_transport_free(struct gyre_transport *transport); /* not the descriptor */

/* 0, -EAGAIN (see read.wants), or -errno: then both sides have failed. */
int gyre_transport_handshake(struct gyre_transport *transport);

/* Receives once, behind what the input holds. Bytes, 0 at the end, -EAGAIN or -errno. */
ssize_t gyre_transport_fill(struct gyre_transport *transport, size_t room);
/* Takes bytes off the input's beginning. */
void gyre_transport_consume(struct gyre_transport *transport, size_t length);

static inline const char *gyre_transport_input(const struct gyre_transport *transport) {
  return transport->input.bytes + transport->input.offset;
}
static inline size_t gyre_transport_available(const struct gyre_transport *transport) {
  return transport->input.length - transport->input.offset;
}
static inline size_t gyre_transport_unsent(const struct gyre_transport *transport) {
  return transport->output.length - transport->output.offset;
}

/* Queues a copy. 0 or -errno: -EPIPE after the end, -ENOMEM, or what the write side has failed with. */
int gyre_transport_write(struct gyre_transport *transport, const void *bytes, size_t length);
/* Sends what is queued, and the end behind it if that was asked for. 0: nothing is left; -EAGAIN (see write.wants), -errno. */
int gyre_transport_flush(struct gyre_transport *transport);
/* No more will be written: the peer learns it behind what is queued. As gyre_transport_flush. */
int gyre_transport_end(struct gyre_transport *transport);

/* Of struct gyre_bytes. */
char *gyre_bytes_reserve(struct gyre_bytes *bytes, size_t room); /* where `room` more bytes may be put; NULL without memory */
void gyre_bytes_consume(struct gyre_bytes *bytes, size_t length);
void gyre_bytes_free(struct gyre_bytes *bytes);

#endif
