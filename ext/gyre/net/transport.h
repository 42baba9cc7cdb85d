/*
 * A transport: a connected stream socket with its buffers, plain or TLS. Protocols and
 * Gyre::Transport stand on it; nothing above net/ calls recv, send or sendfile. It is a state
 * machine: each call moves what it can, never waits, and leaves in `wants` what to wait for. No
 * ruby.h.
 *
 * The two sides end apart: a peer that sends no more may still read.
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

/* Bytes from `offset` up to `length`. Allocated with the first byte, freed with the last one;
 * NULL while there are none. */
struct gyre_bytes {
  uint32_t offset, length, capacity;
  char bytes[];
};

#define GYRE_BYTES_LIMIT (UINT32_C(1) << 31)

enum gyre_side_state { GYRE_SIDE_OPEN, GYRE_SIDE_ENDING, GYRE_SIDE_ENDED, GYRE_SIDE_FAILED };

struct gyre_side {
  uint8_t state; /* enum gyre_side_state */
  uint8_t
      wants; /* after -EAGAIN: GYRE_READABLE or GYRE_WRITABLE of the descriptor; with TLS not always the side's own */
  int16_t error; /* -errno, when it has failed */
};

/* TLS ended without close_notify: the peer may have been cut off (RFC 8446, section 6.1). */
#define GYRE_TRUNCATED (-EBADMSG)

/* Calls return -errno; -EAGAIN with the side's `wants` set. */
struct gyre_transport_operations {
  int (*handshake)(struct gyre_transport *transport); /* 0 when it is over; NULL: there is none */
  ssize_t (*receive)(struct gyre_transport *transport, void *bytes, size_t length); /* 0: the end */
  /* Sends the pieces as one, as far as that goes. */
  ssize_t (*sendv)(struct gyre_transport *transport, const struct iovec *pieces, int count);
  /* Sends bytes of a file; 0: it has none there. */
  ssize_t (*sendfile)(struct gyre_transport *transport, int file, int64_t offset, size_t length);
  int (*flush)(struct gyre_transport *transport); /* sends what the layer itself holds; NULL: it holds nothing */
  int (*end)(struct gyre_transport *transport);   /* announces the end to the peer */
  size_t (*held)(const struct gyre_transport *transport); /* bytes that `flush` would send; NULL: none */
  /* Bytes that the kernel does not report lie here; `whole`: not the beginning of a record only.
   * NULL: none. */
  bool (*pending)(const struct gyre_transport *transport, bool whole);
  /* Whether what was received last has emptied the socket, and none of it lies here; NULL: it has
   * where it was less than asked for. */
  bool (*emptied)(const struct gyre_transport *transport);
  void (*release)(struct gyre_transport *transport); /* frees transport->state; NULL: there is none */
};

/* 64 bytes: an idle connection of a protocol embeds one, and has nothing else of it. */
struct gyre_transport {
  const struct gyre_transport_operations *operations;
  void *state;                         /* of the operations */
  struct gyre_bytes *input, *output;   /* received and not consumed; queued and not sent */
  uint64_t received_bytes, sent_bytes; /* of the protocol above, not of TLS records */
  int fd;                              /* -1 once closed */
  struct gyre_side read, write;
  bool handshaken : 1;
  bool occupied : 1; /* a message of several calls is under way: what is queued meanwhile waits for its end */
};

extern const struct gyre_transport_operations gyre_transport_plain;

void gyre_transport_init(struct gyre_transport *transport, int fd, const struct gyre_transport_operations *operations);
void gyre_transport_free(struct gyre_transport *transport); /* not the descriptor */
/* Closes the descriptor. What was sent still arrives, and with TLS the end, if the socket takes
 * it at once; after a reset, nothing. */
void gyre_transport_close(struct gyre_transport *transport, bool reset);
/* Closes the descriptor and sends nothing: for a forked child, whose parent goes on with the
 * socket. */
void gyre_transport_abandon(struct gyre_transport *transport);

/* 0, -EAGAIN (see read.wants), or -errno: then both sides have failed. The other calls make the
 * handshake where it is due. */
int gyre_transport_handshake(struct gyre_transport *transport);

/* Receives once into the caller's memory; what the input holds comes before. Bytes, 0 at the
 * end, -EAGAIN or -errno. */
ssize_t gyre_transport_receive(struct gyre_transport *transport, void *bytes, size_t length);
/* Whether so many bytes instead of `length` have emptied the socket: what comes next is
 * reported. */
static inline bool gyre_transport_emptied(const struct gyre_transport *transport, size_t received, size_t length) {
  return transport->operations->emptied ? transport->operations->emptied(transport) : received < length;
}
/* Receives once into lent memory and appends that to the input. As gyre_transport_receive. */
ssize_t gyre_transport_fill(struct gyre_transport *transport);
/* Keeps bytes that were received and not used, behind the input. 0 or -ENOMEM. */
int gyre_transport_keep(struct gyre_transport *transport, const void *bytes, size_t length);
/* Takes bytes off the input's beginning. */
void gyre_transport_consume(struct gyre_transport *transport, size_t length);
/* Whether bytes lie below the input that the kernel does not report, and that can be received. */
bool gyre_transport_pending(const struct gyre_transport *transport);
/* Whether bytes have come that were not received: with TLS, of any record. An error or the
 * peer's end is no input. */
bool gyre_transport_input_waits(const struct gyre_transport *transport);
/* Whether the peer has reset the connection, as far as the kernel knows; not for one that has
 * ended its side in order. */
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
/* What is queued, and what TLS has encrypted and not sent. */
static inline size_t gyre_transport_unsent(const struct gyre_transport *transport) {
  size_t held = transport->operations->held ? transport->operations->held(transport) : 0;
  return held + gyre_bytes_held(transport->output);
}

/* What the kernel holds that the peer has not taken (on TCP: acknowledged); 0 where it does not
 * tell. */
size_t gyre_transport_untaken(const struct gyre_transport *transport);

/* Queues a copy. 0 or -errno: -EPIPE after the end, -ENOMEM, -ENOBUFS past GYRE_BYTES_LIMIT, or
 * what the write side failed with. */
int gyre_transport_write(struct gyre_transport *transport, const void *bytes, size_t length);
/* Sends the pieces behind what is queued, without a copy: how many of their bytes were taken
 * (fewer: the socket is full), -EAGAIN or -errno. With TLS, what was taken may be held here
 * still: gyre_transport_unsent counts it, and gyre_transport_flush sends it. */
ssize_t gyre_transport_sendv(struct gyre_transport *transport, const struct iovec *pieces, int count);
/* The same for bytes of a file, of which fewer may be taken at any time; 0: the file ends before
 * `offset`. With the transport occupied it is a part of that message, and goes before what is
 * queued. Where the file cannot be read, nothing was sent and the write side goes on. */
ssize_t gyre_transport_sendfile(struct gyre_transport *transport, int file, int64_t offset, size_t length);
/* Sends what is queued, and the end behind it if that was asked for. 0: nothing is left; -EAGAIN
 * (see write.wants), -errno. */
int gyre_transport_flush(struct gyre_transport *transport);
/* Ends the stream behind what is queued: no more can be written. As gyre_transport_flush. */
int gyre_transport_end(struct gyre_transport *transport);

/* Of struct gyre_bytes. */
char *gyre_bytes_reserve(struct gyre_bytes **bytes,
                         size_t room); /* where `room` more may be put; NULL: no memory, too many */
int gyre_bytes_append(struct gyre_bytes **bytes, const void *more, size_t length); /* 0 or -ENOMEM */
void gyre_bytes_consume(struct gyre_bytes **bytes, size_t length);
void gyre_bytes_free(struct gyre_bytes **bytes);

/* Memory of the present thread, valid until the next call into net/ that may use the same half.
 * NULL without memory. */
#define GYRE_LENT_BYTES (64 * 1024)
char *gyre_lent_received(void); /* what the socket gave */
char *gyre_lent_plain(void);    /* what a protocol gets or gives */

#endif
