/*
 * A transport: a connected stream socket with its buffers, plain or TLS. Protocols and
 * Gyre::Transport use it; nothing above net/ calls recv, send or sendfile. A state machine: each
 * call moves what it can, never waits, and sets `wants` for a wait. No ruby.h.
 *
 * The sides end separately: a peer that has ended its side may still read.
 *
 *   read:   OPEN --end of stream--> ENDED
 *             \---error---------> FAILED
 *   write:  OPEN --gyre_transport_end--> ENDING --all was sent--> ENDED
 *             \---error--> FAILED <---error---/
 */
#ifndef GYRE_NET_TRANSPORT_H
#define GYRE_NET_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct gyre_transport;

/* Bytes from `offset` to `length`. Allocated with the first byte, freed with the last; NULL if
 * empty. */
struct gyre_bytes {
  uint32_t offset, length, capacity;
  char bytes[];
};

#define GYRE_BYTES_LIMIT (UINT32_C(1) << 31)

enum gyre_side_state { GYRE_SIDE_OPEN, GYRE_SIDE_ENDING, GYRE_SIDE_ENDED, GYRE_SIDE_FAILED };

struct gyre_side {
  uint8_t state; /* enum gyre_side_state */
  uint8_t wants; /* after -EAGAIN: GYRE_READABLE or GYRE_WRITABLE; under TLS possibly of the other side */
  int16_t error; /* -errno of a failed side, else 0 */
};

/* TLS ended without close_notify: the stream may be truncated (RFC 8446, section 6.1). */
#define GYRE_TRUNCATED (-EBADMSG)

/* Return -errno; -EAGAIN sets the side's `wants`. */
struct gyre_transport_operations {
  int (*handshake)(struct gyre_transport *transport);                               /* 0 once over; NULL: none */
  ssize_t (*receive)(struct gyre_transport *transport, void *bytes, size_t length); /* 0: the end */
  /* Sends the pieces as one, as far as possible. */
  ssize_t (*sendv)(struct gyre_transport *transport, const struct iovec *pieces, int count);
  /* Sends bytes of a file; returns 0 if it has none there. */
  ssize_t (*sendfile)(struct gyre_transport *transport, int file, int64_t offset, size_t length);
  int (*flush)(struct gyre_transport *transport);         /* sends the layer's own bytes; NULL: has none */
  int (*end)(struct gyre_transport *transport);           /* announces the end to the peer */
  size_t (*held)(const struct gyre_transport *transport); /* number of bytes that `flush` would send; NULL: none */
  /* True if the layer holds bytes that the kernel does not report; `whole`: more than the beginning
   * of a record. NULL: none. */
  bool (*pending)(const struct gyre_transport *transport, bool whole);
  /* True if the last receive emptied socket and layer; NULL: if it got less than requested. */
  bool (*emptied)(const struct gyre_transport *transport);
  void (*release)(struct gyre_transport *transport); /* frees transport->state; NULL: none */
};

/* Has 64 bytes and is a part of its connection, so that an idle connection needs no more memory. */
struct gyre_transport {
  const struct gyre_transport_operations *operations;
  void *state;                         /* of the operations */
  struct gyre_bytes *input, *output;   /* received and not consumed; queued and not sent */
  uint64_t received_bytes, sent_bytes; /* bytes of the protocol above, without TLS records */
  int fd;                              /* -1 once closed */
  struct gyre_side read, write;
  bool handshaken : 1;
  bool occupied : 1; /* a message of several calls is under way; queued bytes wait for its end */
};

extern const struct gyre_transport_operations gyre_transport_plain;

void gyre_transport_init(struct gyre_transport *transport, int fd, const struct gyre_transport_operations *operations);
void gyre_transport_free(struct gyre_transport *transport); /* not the descriptor */
/* Closes the descriptor. Closes: sent bytes still arrive, and the end of TLS if the socket takes it
 * at once; after a reset nothing arrives. */
void gyre_transport_close(struct gyre_transport *transport, bool reset);
/* Closes the descriptor without sending, for a forked child whose parent keeps the socket. */
void gyre_transport_abandon(struct gyre_transport *transport);

/* 0, -EAGAIN (see read.wants), or -errno with both sides failed. Other calls run a due handshake by
 * themselves. */
int gyre_transport_handshake(struct gyre_transport *transport);

/* Receives once into the caller's memory, after the input's bytes. Returns bytes, 0 at the end,
 * -EAGAIN or -errno. */
ssize_t gyre_transport_receive(struct gyre_transport *transport, void *bytes, size_t length);
/* True if receiving `length` bytes instead of the requested number has emptied the socket: the
 * kernel will report more. */
static inline bool gyre_transport_emptied(const struct gyre_transport *transport, size_t received, size_t length) {
  return transport->operations->emptied ? transport->operations->emptied(transport) : received < length;
}
/* Receives once into lent memory and appends to the input. Returns as gyre_transport_receive. */
ssize_t gyre_transport_fill(struct gyre_transport *transport);
/* Appends received, unused bytes to the input. Returns 0 or -ENOMEM. */
int gyre_transport_keep(struct gyre_transport *transport, const void *bytes, size_t length);
/* Takes bytes off the input's beginning. */
void gyre_transport_consume(struct gyre_transport *transport, size_t length);
/* True if the layer below the input, such as TLS, has bytes to receive that the kernel does not
 * report. */
bool gyre_transport_pending(const struct gyre_transport *transport);
/* True if bytes have come that were not received yet; under TLS, of any record. An error or the
 * peer's end does not count. */
bool gyre_transport_input_waits(const struct gyre_transport *transport);
/* True if the kernel knows of a reset by the peer; an orderly end does not count. */
bool gyre_transport_is_reset(const struct gyre_transport *transport);

static inline uint32_t gyre_bytes_held(const struct gyre_bytes *bytes) {
  return bytes ? bytes->length - bytes->offset : 0;
}
static inline const char *gyre_transport_input(const struct gyre_transport *transport) {
  return transport->input ? transport->input->bytes + transport->input->offset : NULL;
}
static inline uint32_t gyre_transport_available(const struct gyre_transport *transport) {
  return gyre_bytes_held(transport->input);
}
/* Returns the bytes of the queue, plus those that TLS has encrypted and not sent. */
static inline size_t gyre_transport_unsent(const struct gyre_transport *transport) {
  size_t held = transport->operations->held ? transport->operations->held(transport) : 0;
  return held + gyre_bytes_held(transport->output);
}

/* Returns the bytes in the kernel that the peer has not taken (TCP: not acknowledged); 0 if
 * unknown. */
size_t gyre_transport_untaken(const struct gyre_transport *transport);

/* Queues a copy. Returns 0 or -errno: -EPIPE after the end, -ENOMEM, -ENOBUFS past
 * GYRE_BYTES_LIMIT, or the write side's error. */
int gyre_transport_write(struct gyre_transport *transport, const void *bytes, size_t length);
/*
 * Sends the pieces after the queue, without a copy. Returns the bytes taken (fewer: the socket is
 * full), -EAGAIN or -errno. TLS may still hold taken bytes: gyre_transport_unsent counts them,
 * gyre_transport_flush sends them.
 */
ssize_t gyre_transport_sendv(struct gyre_transport *transport, const struct iovec *pieces, int count);
/* Sends all bytes after the queue, and queues what the socket does not take. Returns 0 when nothing
 * is left, -EAGAIN or -errno. */
int gyre_transport_pass(struct gyre_transport *transport, const void *bytes, size_t length);
/*
 * Sends bytes of a file, perhaps fewer than requested; returns 0 if the file ends before `offset`.
 * If a message is unfinished on the transport, the bytes are a part of it and go before the queue.
 * If the file cannot be read, nothing is sent, and later writes still work.
 */
ssize_t gyre_transport_sendfile(struct gyre_transport *transport, int file, int64_t offset, size_t length);
/* Sends the queue, and the end behind it if requested. Returns 0 when nothing is left, -EAGAIN (see
 * write.wants), or -errno. */
int gyre_transport_flush(struct gyre_transport *transport);
/* Ends the stream after the queue; later writes fail. Returns as gyre_transport_flush. */
int gyre_transport_end(struct gyre_transport *transport);

char *gyre_bytes_reserve(struct gyre_bytes **bytes,
                         size_t room); /* returns memory for `room` more bytes; NULL: no memory, or too many */
int gyre_bytes_append(struct gyre_bytes **bytes, const void *more, size_t length); /* 0 or -ENOMEM */
void gyre_bytes_consume(struct gyre_bytes **bytes, size_t length);
void gyre_bytes_free(struct gyre_bytes **bytes);

/* Lends memory of this thread until the next call into net/ that may use the same half. NULL
 * without memory. */
#define GYRE_LENT_BYTES (64 * 1024)
char *gyre_lent_received(void); /* from the socket */
char *gyre_lent_plain(void);    /* hands bytes to or from a protocol */

#endif
