/* Packets of datagram sockets, several at once (datagram.h). */
#include "net/datagram.h"
#include "loop/direct_calls.h"
#include "net/transport.h"

_Static_assert(GYRE_DATAGRAM_BATCH *GYRE_DATAGRAM_BYTES <= GYRE_LENT_PACKETS_BYTES, "a batch fits the lent memory");

/* --- several packets per call, or a loop if the system has no such call --- */
#ifndef GYRE_HAVE_MMSG
struct mmsghdr {
  struct msghdr msg_hdr;
  unsigned msg_len;
};

static int recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags, void *timeout) {
  for (unsigned i = 0; i < count; i++) {
    ssize_t length = recvmsg(fd, &messages[i].msg_hdr, flags);
    if (length < 0) return i ? (int)i : -1;
    messages[i].msg_len = (unsigned)length;
  }
  return (int)count;
}

static int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags) {
  for (unsigned i = 0; i < count; i++)
    if (sendmsg(fd, &messages[i].msg_hdr, flags) < 0) return i ? (int)i : -1;
  return (int)count;
}
#endif

#ifdef GYRE_HAVE_CMSG
union control {
  struct cmsghdr head;
  char bytes[CMSG_SPACE(sizeof(((struct gyre_datagram_local *)NULL)->bytes))];
};

static void read_local(struct msghdr *message, struct gyre_datagram_local *local) {
  local->length = 0;
#if defined(IP_PKTINFO) && defined(IPV6_PKTINFO)
  for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head; head = CMSG_NXTHDR(message, head)) {
    bool ip4 = head->cmsg_level == IPPROTO_IP && head->cmsg_type == IP_PKTINFO;
    bool ip6 = head->cmsg_level == IPPROTO_IPV6 && head->cmsg_type == IPV6_PKTINFO;
    size_t length = head->cmsg_len - CMSG_LEN(0);
    if ((!ip4 && !ip6) || length > sizeof(local->bytes) || length < 12) continue;
    *local = (struct gyre_datagram_local){head->cmsg_level, head->cmsg_type, length, {0}};
    memcpy(local->bytes, CMSG_DATA(head), length);
    /* Lets the reply leave by another interface, except from a link-local address. */
    bool link_local = ip6 && (uint8_t)local->bytes[0] == 0xfe && ((uint8_t)local->bytes[1] & 0xc0) == 0x80;
    if (!link_local) memset(local->bytes + (ip4 ? 0 : 16), 0, 4);
  }
#endif
}

static void put_local(struct msghdr *message, union control *control, const struct gyre_datagram_local *local) {
  if (local->length == 0) return;
  memset(control, 0, sizeof(*control));
  message->msg_control = control;
  message->msg_controllen = CMSG_SPACE(local->length);
  control->head.cmsg_level = local->level;
  control->head.cmsg_type = local->type;
  control->head.cmsg_len = CMSG_LEN(local->length);
  memcpy(CMSG_DATA(&control->head), local->bytes, local->length);
}
#else
union control {
  char bytes[1];
};

static void read_local(struct msghdr *message, struct gyre_datagram_local *local) { local->length = 0; }

static void put_local(struct msghdr *message, union control *control, const struct gyre_datagram_local *local) {}
#endif

static int failed(void) { return errno == EWOULDBLOCK ? -EAGAIN : -errno; }

int gyre_datagram_receive(int fd, size_t limit, struct gyre_datagram_packet *packets, int count) {
  char *bytes = gyre_lent_packets();
  if (!bytes) return -ENOMEM;
  struct mmsghdr messages[GYRE_DATAGRAM_BATCH];
  struct iovec parts[GYRE_DATAGRAM_BATCH];
  union control controls[GYRE_DATAGRAM_BATCH];
  for (int i = 0; i < count; i++) {
    parts[i] = (struct iovec){bytes + (size_t)i * GYRE_DATAGRAM_BYTES, limit};
    messages[i].msg_hdr = (struct msghdr){.msg_name = &packets[i].from.any,
                                          .msg_namelen = sizeof(struct sockaddr_un),
                                          .msg_iov = &parts[i],
                                          .msg_iovlen = 1,
                                          .msg_control = &controls[i],
                                          .msg_controllen = sizeof(controls[i])};
  }
  int received = (int)GYRE_RETRY(recvmmsg(fd, messages, (unsigned)count, MSG_DONTWAIT, NULL));
  if (received < 0) return failed();
  for (int i = 0; i < received; i++) {
    packets[i].bytes = parts[i].iov_base;
    packets[i].length = messages[i].msg_len > limit ? limit : messages[i].msg_len;
    packets[i].truncated = messages[i].msg_hdr.msg_flags & MSG_TRUNC;
    read_local(&messages[i].msg_hdr, &packets[i].local);
    socklen_t length = messages[i].msg_hdr.msg_namelen; /* of the address before truncation */
    packets[i].from.length = length > sizeof(struct sockaddr_un) ? sizeof(struct sockaddr_un) : length;
  }
  return received;
}

int gyre_datagram_send(int fd, const char *bytes, size_t length, const struct gyre_datagram_address *to) {
  ssize_t sent =
      GYRE_RETRY(sendto(fd, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL, to ? &to->any : NULL, to ? to->length : 0));
  return sent < 0 ? failed() : 0;
}

bool gyre_datagram_enqueue(struct gyre_datagram_queue *queue, const char *bytes, size_t length,
                           const struct gyre_datagram_address *to, const struct gyre_datagram_local *local) {
  if (queue->count == GYRE_DATAGRAM_BATCH || length > GYRE_DATAGRAM_QUEUED) return false;
  queue->to[queue->count] = *to;
  queue->local[queue->count].length = 0;
  if (local) queue->local[queue->count] = *local;
  queue->lengths[queue->count] = length;
  if (bytes != queue->bytes[queue->count]) memcpy(queue->bytes[queue->count], bytes, length);
  queue->count++;
  return true;
}

size_t gyre_datagram_flush(int fd, struct gyre_datagram_queue *queue) {
  struct mmsghdr messages[GYRE_DATAGRAM_BATCH];
  struct iovec parts[GYRE_DATAGRAM_BATCH];
  union control controls[GYRE_DATAGRAM_BATCH];
  for (int i = 0; i < queue->count; i++) {
    parts[i] = (struct iovec){queue->bytes[i], queue->lengths[i]};
    messages[i].msg_hdr = (struct msghdr){
        .msg_name = &queue->to[i].any, .msg_namelen = queue->to[i].length, .msg_iov = &parts[i], .msg_iovlen = 1};
    put_local(&messages[i].msg_hdr, &controls[i], &queue->local[i]);
  }
  int next = 0, asked_twice = -1;
  size_t refused = 0;
  while (next < queue->count) {
    int sent = sendmmsg(fd, messages + next, (unsigned)(queue->count - next), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) {
      next += sent;
    } else if (errno == EWOULDBLOCK || errno == EAGAIN) {
      break;
    } else if (errno == ECONNREFUSED && asked_twice != next) {
      asked_twice = next; /* error of an earlier packet (udp(7)): this packet was not tried */
    } else if (errno != EINTR) {
      next++;
      refused++;
    }
  }
  refused += (size_t)(queue->count - next);
  queue->count = 0;
  return refused;
}
