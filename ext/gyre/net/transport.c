/* Transports (transport.h): buffers, the sides' states, and the operations of plain sockets. */
#include "net/transport.h"
#include "loop/backend.h"
#include "loop/direct_calls.h"

#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#ifdef GYRE_HAVE_SENDFILE
#include <sys/sendfile.h>
#endif

#define FIRST_BYTES 64
#define PIECES 64
#define FILE_BYTES (16 * 1024)

char *gyre_bytes_reserve(struct gyre_bytes **place, size_t room) {
  struct gyre_bytes *bytes = *place;
  size_t held = gyre_bytes_held(bytes);
  if (room > GYRE_BYTES_LIMIT - held) return NULL;
  if (bytes && bytes->length + room <= bytes->capacity) return bytes->bytes + bytes->length;
  /* Moves bytes to the front only if half of the memory is consumed, so that moves are rare. */
  if (bytes && held + room <= bytes->capacity && bytes->offset >= bytes->capacity / 2) {
    memmove(bytes->bytes, bytes->bytes + bytes->offset, held);
  } else {
    size_t capacity = bytes ? bytes->capacity : FIRST_BYTES;
    while (capacity < held + room) capacity *= 2;
    struct gyre_bytes *larger = malloc(sizeof(*larger) + capacity);
    if (!larger) return NULL;
    if (held) memcpy(larger->bytes, bytes->bytes + bytes->offset, held);
    larger->capacity = (uint32_t)capacity;
    free(bytes);
    bytes = *place = larger;
  }
  bytes->offset = 0;
  bytes->length = (uint32_t)held;
  return bytes->bytes + held;
}

int gyre_bytes_append(struct gyre_bytes **bytes, const void *more, size_t length) {
  if (length == 0) return 0;
  char *place = gyre_bytes_reserve(bytes, length);
  if (!place) return -ENOMEM;
  memcpy(place, more, length);
  (*bytes)->length += (uint32_t)length;
  return 0;
}

void gyre_bytes_consume(struct gyre_bytes **bytes, size_t length) {
  if (length == 0) return;
  (*bytes)->offset += (uint32_t)length;
  if ((*bytes)->offset == (*bytes)->length) gyre_bytes_free(bytes);
}

void gyre_bytes_free(struct gyre_bytes **bytes) {
  free(*bytes);
  *bytes = NULL;
}

/* Sizes of a thread's lent memory, for streams and for packets. */
static const size_t lent_bytes[] = {2 * GYRE_LENT_BYTES, GYRE_LENT_PACKETS_BYTES};
static pthread_key_t lent_keys[2];
static pthread_once_t lent_once = PTHREAD_ONCE_INIT;
static int lent_error;

static void make_lent_keys(void) {
  for (int i = 0; i < 2 && !lent_error; i++) lent_error = pthread_key_create(&lent_keys[i], free);
}

static char *lent(int kind, size_t offset) {
  pthread_once(&lent_once, make_lent_keys);
  if (lent_error) return NULL;
  char *bytes = pthread_getspecific(lent_keys[kind]);
  if (!bytes) {
    bytes = malloc(lent_bytes[kind]);
    if (!bytes) return NULL;
    if (pthread_setspecific(lent_keys[kind], bytes)) {
      free(bytes);
      return NULL;
    }
  }
  return bytes + offset;
}

char *gyre_lent_received(void) { return lent(0, 0); }
char *gyre_lent_plain(void) { return lent(0, GYRE_LENT_BYTES); }
char *gyre_lent_packets(void) { return lent(1, 0); }

void gyre_transport_init(struct gyre_transport *transport, int fd, const struct gyre_transport_operations *operations) {
  *transport = (struct gyre_transport){.operations = operations, .fd = fd, .handshaken = !operations->handshake};
}

void gyre_transport_free(struct gyre_transport *transport) {
  if (transport->operations && transport->operations->release) transport->operations->release(transport);
  transport->state = NULL;
  gyre_bytes_free(&transport->input);
  gyre_bytes_free(&transport->output);
}

void gyre_transport_close(struct gyre_transport *transport, bool reset) {
  if (reset) {
    struct linger linger = {1, 0};
    setsockopt(transport->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
  } else if (transport->operations->release) {
    (void)gyre_transport_end(transport); /* close ends a plain stream */
  }
  gyre_transport_abandon(transport);
}

void gyre_transport_abandon(struct gyre_transport *transport) {
  close(transport->fd);
  transport->fd = -1;
}

static int fail(struct gyre_side *side, int error) {
  if (error == -EAGAIN) return error;
  side->state = GYRE_SIDE_FAILED;
  side->error = (int16_t)error;
  return error;
}

int gyre_transport_handshake(struct gyre_transport *transport) {
  if (transport->handshaken) return 0;
  if (transport->read.state == GYRE_SIDE_FAILED) return transport->read.error;
  int error = transport->operations->handshake(transport);
  if (error == 0) {
    transport->handshaken = true;
    transport->read.wants = GYRE_READABLE;
  }
  if (error == 0 || error == -EAGAIN) return error;
  fail(&transport->write, error);
  return fail(&transport->read, error);
}

ssize_t gyre_transport_receive(struct gyre_transport *transport, void *bytes, size_t length) {
  if (transport->read.state == GYRE_SIDE_ENDED) return 0;
  if (transport->read.state == GYRE_SIDE_FAILED) return transport->read.error;
  if (!transport->handshaken) {
    int error = gyre_transport_handshake(transport);
    if (error < 0) return error;
  }
  ssize_t count = transport->operations->receive(transport, bytes, length);
  if (count < 0) return fail(&transport->read, (int)count);
  if (count == 0) transport->read.state = GYRE_SIDE_ENDED;
  transport->received_bytes += (uint64_t)count;
  return count;
}

ssize_t gyre_transport_fill(struct gyre_transport *transport) {
  char *bytes = gyre_lent_plain();
  if (!bytes) return -ENOMEM;
  ssize_t count = gyre_transport_receive(transport, bytes, GYRE_LENT_BYTES);
  if (count <= 0) return count;
  int error = gyre_transport_keep(transport, bytes, (size_t)count);
  return error < 0 ? fail(&transport->read, error) : count;
}

int gyre_transport_keep(struct gyre_transport *transport, const void *bytes, size_t length) {
  return gyre_bytes_append(&transport->input, bytes, length);
}

void gyre_transport_consume(struct gyre_transport *transport, size_t length) {
  gyre_bytes_consume(&transport->input, length);
}

static bool holds(const struct gyre_transport *transport, bool whole) {
  return transport->operations->pending && transport->operations->pending(transport, whole);
}

bool gyre_transport_pending(const struct gyre_transport *transport) { return holds(transport, true); }

bool gyre_transport_input_waits(const struct gyre_transport *transport) {
  char byte;
  return transport->input || holds(transport, false) || recv(transport->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

bool gyre_transport_is_reset(const struct gyre_transport *transport) {
  struct pollfd descriptor = {.fd = transport->fd};
  return transport->fd >= 0 && poll(&descriptor, 1, 0) > 0 && descriptor.revents & (POLLERR | POLLHUP);
}

size_t gyre_transport_untaken(const struct gyre_transport *transport) {
#ifdef TIOCOUTQ
  int bytes = 0;
  if (transport->fd >= 0 && ioctl(transport->fd, TIOCOUTQ, &bytes) == 0 && bytes > 0) return (size_t)bytes;
#endif
  return 0;
}

static int writable(const struct gyre_transport *transport) {
  if (transport->write.state == GYRE_SIDE_FAILED) return transport->write.error;
  return transport->write.state == GYRE_SIDE_OPEN ? 0 : -EPIPE;
}

/* Completes the handshake and sends the queue. Returns 0 if new bytes may follow, or -errno. */
static int clear_way(struct gyre_transport *transport) {
  int error = writable(transport);
  if (error < 0) return error;
  bool clear = transport->handshaken && !transport->occupied && gyre_transport_unsent(transport) == 0;
  return clear ? 0 : gyre_transport_flush(transport);
}

static ssize_t sent(struct gyre_transport *transport, ssize_t count) {
  if (count < 0) return fail(&transport->write, (int)count);
  transport->sent_bytes += (uint64_t)count;
  return count;
}

int gyre_transport_write(struct gyre_transport *transport, const void *bytes, size_t length) {
  int error = writable(transport);
  if (error < 0) return error;
  if (length > GYRE_BYTES_LIMIT - gyre_bytes_held(transport->output)) return -ENOBUFS;
  return gyre_bytes_append(&transport->output, bytes, length);
}

ssize_t gyre_transport_sendv(struct gyre_transport *transport, const struct iovec *pieces, int count) {
  int error = clear_way(transport);
  if (error < 0) return error;
  return sent(transport, transport->operations->sendv(transport, pieces, count));
}

int gyre_transport_pass(struct gyre_transport *transport, const void *bytes, size_t length) {
  ssize_t count = gyre_transport_sendv(transport, &(struct iovec){(void *)bytes, length}, 1);
  if (count == -EAGAIN) count = 0;
  int error = count < 0 ? (int)count : 0;
  if (error == 0 && (size_t)count < length)
    error = gyre_transport_write(transport, (const char *)bytes + count, length - (size_t)count);
  return error < 0 || gyre_transport_unsent(transport) == 0 ? error : gyre_transport_flush(transport);
}

ssize_t gyre_transport_sendfile(struct gyre_transport *transport, int file, int64_t offset, size_t length) {
  int error = transport->occupied ? writable(transport) : clear_way(transport);
  if (error < 0) return error;
  ssize_t count = transport->operations->sendfile(transport, file, offset, length);
  char byte;
  if (count < 0 && count != -EAGAIN && pread(file, &byte, 1, (off_t)offset) < 0)
    return -errno; /* the file is a folder, a pipe, write-only, or damaged */
  return sent(transport, count);
}

int gyre_transport_flush(struct gyre_transport *transport) {
  if (transport->write.state == GYRE_SIDE_FAILED) return transport->write.error;
  int error = gyre_transport_handshake(transport);
  if (error < 0) {
    transport->write.wants = transport->read.wants;
    return error;
  }
  if (transport->occupied) {
    transport->write.wants = GYRE_WRITABLE;
    return -EAGAIN;
  }
  while (transport->output) {
    struct iovec rest = {transport->output->bytes + transport->output->offset, gyre_bytes_held(transport->output)};
    ssize_t count = sent(transport, transport->operations->sendv(transport, &rest, 1));
    if (count < 0) {
      if (count != -EAGAIN) gyre_bytes_free(&transport->output);
      return (int)count;
    }
    gyre_bytes_consume(&transport->output, (size_t)count);
  }
  error = transport->operations->flush ? transport->operations->flush(transport) : 0;
  if (error < 0) return fail(&transport->write, error);
  if (transport->write.state != GYRE_SIDE_ENDING) return 0;
  error = transport->operations->end(transport);
  if (error < 0) return fail(&transport->write, error);
  transport->write.state = GYRE_SIDE_ENDED;
  return 0;
}

int gyre_transport_end(struct gyre_transport *transport) {
  if (transport->write.state == GYRE_SIDE_ENDED) return 0;
  if (transport->occupied) return gyre_transport_flush(transport);
  bool begun = transport->handshaken || transport->output; /* false: there is nothing to end */
  if (transport->write.state == GYRE_SIDE_OPEN) transport->write.state = begun ? GYRE_SIDE_ENDING : GYRE_SIDE_ENDED;
  if (!begun) return 0;
  return gyre_transport_flush(transport);
}

static ssize_t result(struct gyre_side *side, unsigned wants, ssize_t count) {
  if (count >= 0) return count;
  side->wants = (uint8_t)wants;
  return errno == EAGAIN || errno == EWOULDBLOCK ? -EAGAIN : -errno;
}

static ssize_t plain_receive(struct gyre_transport *transport, void *bytes, size_t length) {
  ssize_t count = GYRE_RETRY(gyre_recv(transport->fd, bytes, length, MSG_DONTWAIT));
  return result(&transport->read, GYRE_READABLE, count);
}

static ssize_t plain_sendv(struct gyre_transport *transport, const struct iovec *pieces, int count) {
  struct msghdr message = {.msg_iov = (struct iovec *)pieces, .msg_iovlen = (size_t)(count < PIECES ? count : PIECES)};
  ssize_t sent =
      GYRE_RETRY(count == 1 ? gyre_send(transport->fd, pieces->iov_base, pieces->iov_len, MSG_DONTWAIT | MSG_NOSIGNAL)
                            : sendmsg(transport->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL));
  return result(&transport->write, GYRE_WRITABLE, sent);
}

/* Sends a file's bytes by sendfile. If sendfile does not support the file, reads and sends a piece
 * of it. Needs a non-blocking socket. May raise SIGPIPE, which Ruby ignores. */
static ssize_t plain_sendfile(struct gyre_transport *transport, int file, int64_t offset, size_t length) {
#ifdef GYRE_HAVE_SENDFILE
  off_t from = (off_t)offset;
  ssize_t sent = GYRE_RETRY(sendfile(transport->fd, file, &from, length));
  if (sent >= 0 || (errno != EINVAL && errno != ENOSYS)) return result(&transport->write, GYRE_WRITABLE, sent);
#endif
  char *bytes = gyre_lent_plain();
  if (!bytes) return -ENOMEM;
  ssize_t count = pread(file, bytes, length < FILE_BYTES ? length : FILE_BYTES, (off_t)offset);
  if (count <= 0) return count < 0 ? -errno : 0;
  return plain_sendv(transport, &(struct iovec){bytes, (size_t)count}, 1);
}

static int plain_end(struct gyre_transport *transport) {
  return shutdown(transport->fd, SHUT_WR) < 0 && errno != ENOTCONN ? -errno : 0;
}

const struct gyre_transport_operations gyre_transport_plain = {
    .receive = plain_receive, .sendv = plain_sendv, .sendfile = plain_sendfile, .end = plain_end};
