/* A connected stream socket with its buffers, plain or TLS, for protocols and Gyre::Transport;
 * nothing above net/ calls recv, send or sendfile. A state machine: each call moves what it can,
 * never waits, and sets `wants`. No ruby.h.
 *
 * A peer that has ended its side may still read.
 *
 *   read:   OPEN --end of stream--> ENDED
 *             \---error---------> FAILED
 *   write:  OPEN --gyre_transport_end--> ENDING --all was sent--> ENDED
 *             \---error--> FAILED <---error---/ */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct gyre_transport;

/* Bytes from `offset` to `length`; NULL if empty. */
struct gyre_bytes {
  uint32_t offset, length, capacity;
  char bytes[];
};

#define GYRE_BYTES_LIMIT (UINT32_C(1) << 31)

enum gyre_side_state { GYRE_SIDE_OPEN, GYRE_SIDE_ENDING, GYRE_SIDE_ENDED, GYRE_SIDE_FAILED };

struct gyre_side {
  uint8_t state; /* enum gyre_side_state */
  uint8_t wants; /* after -EAGAIN: GYRE_READABLE or GYRE_WRITABLE, under TLS maybe of the other side */
  int16_t error; /* -errno of a failed side, else 0 */
};

/* TLS ended without close_notify, so the stream may be truncated (RFC 8446, section 6.1). */
#define GYRE_TRUNCATED (-EBADMSG)

/* Return -errno; -EAGAIN sets the side's `wants`. */
struct gyre_transport_operations {
  int (*handshake)(struct gyre_transport *transport);                               /* 0 once over; NULL: none */
  ssize_t (*receive)(struct gyre_transport *transport, void *bytes, size_t length); /* 0: the end */
  /* Sends the pieces as one. */
  ssize_t (*sendv)(struct gyre_transport *transport, const struct iovec *pieces, int count);
  /* Returns 0 if the file has no such bytes. */
  ssize_t (*sendfile)(struct gyre_transport *transport, int file, int64_t offset, size_t length);
  int (*flush)(struct gyre_transport *transport);         /* sends the layer's own bytes; NULL: none */
  int (*end)(struct gyre_transport *transport);           /* tells the peer */
  size_t (*held)(const struct gyre_transport *transport); /* bytes that `flush` would send; NULL: none */
  /* True if the layer holds bytes unknown to the kernel; `whole`: more than a record's beginning.
   * NULL: none. */
  bool (*pending)(const struct gyre_transport *transport, bool whole);
  /* True if the last receive emptied socket and layer; NULL: if it got less than requested. */
  bool (*emptied)(const struct gyre_transport *transport);
  void (*release)(struct gyre_transport *transport); /* frees transport->state; NULL: none */
};

/* Takes 64 bytes, so that an idle connection needs no more. */
struct gyre_transport {
  const struct gyre_transport_operations *operations;
  void *state;                         /* the operations' */
  struct gyre_bytes *input, *output;   /* unconsumed; unsent */
  uint64_t received_bytes, sent_bytes; /* without TLS records */
  int fd;                              /* -1 once closed */
  struct gyre_side read, write;
  bool handshaken : 1;
  bool occupied : 1; /* within a message of several calls; the queue waits for its end */
};

extern const struct gyre_transport_operations gyre_transport_plain;

void gyre_transport_init(struct gyre_transport *transport, int fd, const struct gyre_transport_operations *operations);
void gyre_transport_free(struct gyre_transport *transport); /* not the descriptor */
/* Closes the descriptor: sent bytes arrive, and TLS's end if there is room; after a reset nothing
 * arrives. */
void gyre_transport_close(struct gyre_transport *transport, bool reset);
/* Closes without sending, in a forked child. */
void gyre_transport_abandon(struct gyre_transport *transport);

/* Returns 0, -EAGAIN (read.wants), or -errno with both sides failed. Other calls continue a
 * handshake, too. */
int gyre_transport_handshake(struct gyre_transport *transport);

/* Receives once into the caller's memory, after the input. Returns bytes, 0 at the end, -EAGAIN or
 * -errno. */
ssize_t gyre_transport_receive(struct gyre_transport *transport, void *bytes, size_t length);
/* True if receiving `length` of the requested bytes has emptied the socket: the kernel will report
 * more. */
static inline bool gyre_transport_emptied(const struct gyre_transport *transport, size_t received, size_t length) {
  return transport->operations->emptied ? transport->operations->emptied(transport) : received < length;
}
/* Receives once into lent memory, appends to the input, returns as gyre_transport_receive. */
ssize_t gyre_transport_fill(struct gyre_transport *transport);
/* Appends unused bytes to the input. Returns 0 or -ENOMEM. */
int gyre_transport_keep(struct gyre_transport *transport, const void *bytes, size_t length);
void gyre_transport_consume(struct gyre_transport *transport, size_t length);
/* True if a layer below the input, such as TLS, holds bytes unknown to the kernel. */
bool gyre_transport_pending(const struct gyre_transport *transport);
/* True if unreceived bytes have come (under TLS of any record); an error or end does not count. */
bool gyre_transport_input_waits(const struct gyre_transport *transport);
/* True after a reset by the peer, but not after an orderly end. */
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
/* Returns the queue's bytes plus TLS's unsent ones. */
static inline size_t gyre_transport_unsent(const struct gyre_transport *transport) {
  size_t held = transport->operations->held ? transport->operations->held(transport) : 0;
  return held + gyre_bytes_held(transport->output);
}

/* Returns the kernel's bytes that the peer has not taken (TCP: acknowledged); 0 if unknown. */
size_t gyre_transport_untaken(const struct gyre_transport *transport);

/* Queues a copy. Returns 0 or -errno: -EPIPE after the end, -ENOMEM, -ENOBUFS beyond
 * GYRE_BYTES_LIMIT, or the side's error. */
int gyre_transport_write(struct gyre_transport *transport, const void *bytes, size_t length);
/* Sends the pieces after the queue, uncopied. Returns taken bytes (fewer: the socket is full),
 * -EAGAIN or -errno. TLS may hold taken bytes, see gyre_transport_unsent and _flush. */
ssize_t gyre_transport_sendv(struct gyre_transport *transport, const struct iovec *pieces, int count);
/* Sends bytes after the queue, and queues the rest. Returns 0 when nothing is left, -EAGAIN or
 * -errno. */
int gyre_transport_pass(struct gyre_transport *transport, const void *bytes, size_t length);
/* Sends a file's bytes, maybe fewer; returns 0 if it ends before `offset`. In the middle of
 * a message they are part of it, and precede the queue. An unreadable file harms no later write. */
ssize_t gyre_transport_sendfile(struct gyre_transport *transport, int file, int64_t offset, size_t length);
/* Sends the queue, and a requested end. Returns 0 when nothing is left, -EAGAIN (write.wants), or
 * -errno. */
int gyre_transport_flush(struct gyre_transport *transport);
/* Ends the stream after the queue; returns as gyre_transport_flush. */
int gyre_transport_end(struct gyre_transport *transport);

char *gyre_bytes_reserve(struct gyre_bytes **bytes,
                         size_t room); /* memory for `room` more bytes; NULL: none, or too many */
int gyre_bytes_append(struct gyre_bytes **bytes, const void *more, size_t length); /* 0 or -ENOMEM */
void gyre_bytes_consume(struct gyre_bytes **bytes, size_t length);
void gyre_bytes_free(struct gyre_bytes **bytes);

/* Lends this thread's memory until a call into net/ that uses the same half. NULL without
 * memory. */
#define GYRE_LENT_BYTES (64 * 1024)
char *gyre_lent_received(void); /* from the socket */
char *gyre_lent_plain(void);    /* to or from a protocol */
/* For datagram.c: 1 MB of addresses, of which about 64 KB are touched. */
#define GYRE_LENT_PACKETS_BYTES (1024 * 1024)
char *gyre_lent_packets(void);
