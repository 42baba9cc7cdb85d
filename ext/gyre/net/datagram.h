/* Datagram sockets: moves several packets per system call if possible (recvmmsg, sendmmsg).
 * Received packets are in memory lent by the thread. Never waits. No ruby.h. */
#pragma once

#include "feature.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#define GYRE_DATAGRAM_BATCH 16    /* packets per call; 64 are no faster */
#define GYRE_DATAGRAM_BYTES 65536 /* longer than any UDP packet */
#define GYRE_DATAGRAM_QUEUED 2048 /* largest packet that is queued */

struct gyre_datagram_address {
  socklen_t length; /* 0: no address (an unbound Unix socket) */
  union {
    struct sockaddr any;
    struct sockaddr_in ip4;
    struct sockaddr_in6 ip6;
    struct sockaddr_un path;
  };
};

/* Local address at which a packet arrived, as a control message; `length` is 0 if unknown. Needs
 * IP_PKTINFO or IPV6_RECVPKTINFO. */
struct gyre_datagram_local {
  int level, type;
  size_t length;
  char bytes[20];
};

/* `bytes` are valid until this thread receives again. */
struct gyre_datagram_packet {
  const char *bytes;
  size_t length;
  bool truncated; /* longer than the limit */
  struct gyre_datagram_address from;
  struct gyre_datagram_local local;
};

/* Receives up to `count` packets (at most GYRE_DATAGRAM_BATCH) of up to `limit` bytes (at most
 * GYRE_DATAGRAM_BYTES). Returns the number of packets, -EAGAIN or -errno. On a connected
 * socket, -ECONNREFUSED is the answer to a packet that was sent earlier. */
int gyre_datagram_receive(int fd, size_t limit, struct gyre_datagram_packet *packets, int count);

/* `to`: NULL on a connected socket. Returns 0 or -errno. */
int gyre_datagram_send(int fd, const char *bytes, size_t length, const struct gyre_datagram_address *to);

struct gyre_datagram_queue {
  int count;
  struct gyre_datagram_address to[GYRE_DATAGRAM_BATCH];
  struct gyre_datagram_local local[GYRE_DATAGRAM_BATCH]; /* local address to send from */
  size_t lengths[GYRE_DATAGRAM_BATCH];
  char bytes[GYRE_DATAGRAM_BATCH][GYRE_DATAGRAM_QUEUED];
};

/* Appends a packet. Copies its bytes, unless they are already in the next place. `local` may be
 * NULL. Returns false if the queue is full or the packet exceeds GYRE_DATAGRAM_QUEUED. */
bool gyre_datagram_enqueue(struct gyre_datagram_queue *queue, const char *bytes, size_t length,
                           const struct gyre_datagram_address *to, const struct gyre_datagram_local *local);
/* Sends all packets and empties the queue. Returns the number of packets refused by the kernel. */
size_t gyre_datagram_flush(int fd, struct gyre_datagram_queue *queue);
