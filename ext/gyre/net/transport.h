/* A connected stream socket with its buffers, plain or TLS, for protocols and Gyre::Transport. They
 * move its bytes only by calls of this file (except a PROXY header). Calls move as many bytes as
 * possible, never wait, and set `wants`. No ruby.h.
 *
 * A peer that has ended its side may still read.
 *
 *   read:   OPEN --end of stream--> ENDED
 *             \---error---------> FAILED
 *   write:  OPEN --gyre_transport_end--> ENDING --all was sent--> ENDED
 *             \---error--> FAILED <---error---/ */
#pragma once

#include "feature.h"

#include <sys/uio.h>

struct gyre_transport;

/* A buffer with content from `offset` to `length`. An empty buffer is NULL. */
struct gyre_bytes {
  uint32_t offset, length, capacity;
  char bytes[];
};

#define GYRE_BYTES_LIMIT (UINT32_C(1) << 31)

enum gyre_side_state { GYRE_SIDE_OPEN, GYRE_SIDE_ENDING, GYRE_SIDE_ENDED, GYRE_SIDE_FAILED };

struct gyre_side {
  uint8_t state; /* enum gyre_side_state */
  uint8_t wants; /* after -EAGAIN: event to wait for; TLS may need the other direction */
  int16_t error; /* -errno of a failed side, else 0 */
};

/* TLS ended without close_notify, so the stream may be truncated (RFC 8446, section 6.1). */
#define GYRE_TRUNCATED (-EBADMSG)

/* Calls that fail return -errno; if it is -EAGAIN, they set `wants`. `handshake` may be NULL. */
struct gyre_transport_operations {
  int (*handshake)(struct gyre_transport *transport);                               /* 0: done */
  ssize_t (*receive)(struct gyre_transport *transport, void *bytes, size_t length); /* 0: the end */
  /* Sends the pieces in order. Returns the number of bytes. */
  ssize_t (*sendv)(struct gyre_transport *transport, const struct iovec *pieces, int count);
  /* Returns 0 if the file ends before `offset` or at it. */
  ssize_t (*sendfile)(struct gyre_transport *transport, int file, int64_t offset, size_t length);
  int (*flush)(struct gyre_transport *transport);         /* sends `held` bytes; NULL: none */
  int (*end)(struct gyre_transport *transport);           /* ends the stream for the peer */
  size_t (*held)(const struct gyre_transport *transport); /* bytes that `flush` would send; NULL: none */
  /* True if the layer holds received bytes, which the kernel no longer reports. `whole`: ignores an
   * incomplete record. NULL: the layer holds none. */
  bool (*pending)(const struct gyre_transport *transport, bool whole);
  /* True if the last receive emptied the socket and this layer. NULL: true if it got less than
   * requested. */
  bool (*emptied)(const struct gyre_transport *transport);
  void (*release)(struct gyre_transport *transport); /* frees transport->state; NULL: none */
};

/* Takes 64 bytes. An idle plain transport needs no other memory. */
struct gyre_transport {
  const struct gyre_transport_operations *operations;
  void *state;                         /* used by the operations */
  struct gyre_bytes *input, *output;   /* unconsumed bytes; unsent bytes */
  uint64_t received_bytes, sent_bytes; /* plain bytes, without TLS overhead */
  int fd;                              /* -1 once closed */
  struct gyre_side read, write;
  bool handshaken : 1;
  bool occupied : 1; /* a message of several calls is unfinished; the queue waits for its end */
};

extern const struct gyre_transport_operations gyre_transport_plain;

void gyre_transport_init(struct gyre_transport *transport, int fd, const struct gyre_transport_operations *operations);
void gyre_transport_free(struct gyre_transport *transport); /* keeps the descriptor open */
/* Closes the descriptor. Sent bytes still arrive, and TLS's close_notify if there is room for it.
 * `reset`: sends a reset instead, and unsent bytes are lost. */
void gyre_transport_close(struct gyre_transport *transport, bool reset);
/* Closes the descriptor and sends nothing, not even TLS's close_notify. */
void gyre_transport_abandon(struct gyre_transport *transport);

/* Returns 0, -EAGAIN (sets read.wants), or -errno, after which both sides have failed. Receiving
 * and sending continue a handshake, too. */
int gyre_transport_handshake(struct gyre_transport *transport);

/* Receives once into the caller's memory. In the stream, these bytes follow the input. Returns the
 * number of bytes, 0 at the end, -EAGAIN or -errno. */
ssize_t gyre_transport_receive(struct gyre_transport *transport, void *bytes, size_t length);
/* True if a call that requested `length` bytes and received `received` has emptied the socket. The
 * kernel then reports later bytes. */
static inline bool gyre_transport_emptied(const struct gyre_transport *transport, size_t received, size_t length) {
  return transport->operations->emptied ? transport->operations->emptied(transport) : received < length;
}
/* Receives once and appends the bytes to the input. Returns as gyre_transport_receive. */
ssize_t gyre_transport_fill(struct gyre_transport *transport);
/* Appends unused bytes to the input. Returns 0 or -ENOMEM. */
int gyre_transport_keep(struct gyre_transport *transport, const void *bytes, size_t length);
void gyre_transport_consume(struct gyre_transport *transport, size_t length);
/* True if a layer below the input holds received bytes, which the kernel no longer reports. */
bool gyre_transport_pending(const struct gyre_transport *transport);
/* True if the input, the layer below or the socket has bytes. An error or an end does not count. */
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
/* Returns the number of unsent bytes: the queue's and those that TLS has encrypted. */
static inline size_t gyre_transport_unsent(const struct gyre_transport *transport) {
  size_t held = transport->operations->held ? transport->operations->held(transport) : 0;
  return held + gyre_bytes_held(transport->output);
}

/* Returns the number of bytes in the kernel that the peer has not acknowledged; 0 if unknown. */
size_t gyre_transport_untaken(const struct gyre_transport *transport);

/* Queues a copy. Returns 0 or -errno: -EPIPE after the end, -ENOMEM, -ENOBUFS beyond
 * GYRE_BYTES_LIMIT, or the side's error. */
int gyre_transport_write(struct gyre_transport *transport, const void *bytes, size_t length);
/* Sends the queue, then the pieces without queuing them. Returns the number of bytes taken (fewer
 * if the socket is full), -EAGAIN or -errno. TLS may hold taken bytes (gyre_transport_unsent). */
ssize_t gyre_transport_sendv(struct gyre_transport *transport, const struct iovec *pieces, int count);
/* Sends the queue, then the bytes, and queues those that are left. Returns 0 if all are sent,
 * -EAGAIN or -errno. */
int gyre_transport_pass(struct gyre_transport *transport, const void *bytes, size_t length);
/* Sends up to `length` bytes of a file, before the queue if the transport is `occupied`. Returns 0
 * if the file ends before `offset`. If the file is unreadable, later writes still work. */
ssize_t gyre_transport_sendfile(struct gyre_transport *transport, int file, int64_t offset, size_t length);
/* Sends the queue, then the end if it was requested. Returns 0 if all is sent, -EAGAIN (sets
 * write.wants) or -errno. */
int gyre_transport_flush(struct gyre_transport *transport);
/* Sends the queue, then ends the stream. Returns as gyre_transport_flush. */
int gyre_transport_end(struct gyre_transport *transport);

/* Returns memory for `room` more bytes; NULL if there is none or GYRE_BYTES_LIMIT is exceeded. */
char *gyre_bytes_reserve(struct gyre_bytes **bytes, size_t room);
int gyre_bytes_append(struct gyre_bytes **bytes, const void *more, size_t length); /* 0 or -ENOMEM */
void gyre_bytes_consume(struct gyre_bytes **bytes, size_t length);
void gyre_bytes_free(struct gyre_bytes **bytes);

/* Lend this thread's memory until a call into net/ uses the same part of it. Return NULL if memory
 * runs out. */
#define GYRE_LENT_BYTES (64 * 1024)
char *gyre_lent_received(void); /* for bytes from the socket */
char *gyre_lent_plain(void);    /* for bytes to or from a protocol */
/* For datagram.c. Packets of usual length touch about 64 KB of this memory. */
#define GYRE_LENT_PACKETS_BYTES (1024 * 1024)
char *gyre_lent_packets(void);
