/*
 * Transports (see transport.h): buffers and the state of each side, and the operations of plain sockets.
 */
#include "feature.h"

#include "loop/backend.h"
#include "loop/direct_calls.h"
#include "net/transport.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BYTES 4096

/* --- bytes --- */

char *gyre_bytes_reserve(struct gyre_bytes *bytes, size_t room) {
  size_t held = bytes->length - bytes->offset;
  if (room > SIZE_MAX / 4 - held) return NULL;
  if (bytes->length + room <= bytes->capacity) return bytes->bytes + bytes->length;
  /* Moved to the front only when at least half is free there, so that many small takings do not move the same bytes often. */
  if (held + room > bytes->capacity || bytes->offset < bytes->capacity / 2) {
    size_t capacity = bytes->capacity ? bytes->capacity : FIRST_BYTES;
    while (capacity < held + room) capacity *= 2;
    char *larger = malloc(capacity);
    if (!larger) return NULL;
    if (held) memcpy(larger, bytes->bytes + bytes->offset, held);
    free(bytes->bytes);
    bytes->bytes = larger;
    bytes->capacity = capacity;
  } else {
    memmove(bytes->bytes, bytes->bytes + bytes->offset, held);
  }
  bytes->offset = 0;
  bytes->length = held;
  return bytes->bytes + held;
}

void gyre_bytes_consume(struct gyre_bytes *bytes, size_t length) {
  bytes->offset += length;
  if (bytes->offset == bytes->length) gyre_bytes_free(bytes);
}

void gyre_bytes_free(struct gyre_bytes *bytes) {
  free(bytes->bytes);
  *bytes = (struct gyre_bytes){0};
}

/* --- life --- */

void gyre_transport_init(struct gyre_transport *transport, int fd, const struct gyre_transport_operations *operations) {
  *transport = (struct gyre_transport){.operations = operations, .fd = fd, .handshaken = !operations->handshake};
}

void gyre_transport_free(struct gyre_transport *transport) {
  if (transport->operations && transport->operations->release) transport->operations->release(transport);
  transport->state = NULL;
  gyre_bytes_free(&transport->input);
  gyre_bytes_free(&transport->output);
}

static int fail(struct gyre_side *side, int error) {
  if (error == -EAGAIN) return error;
  side->state = GYRE_SIDE_FAILED;
  return side->error = error;
}

int gyre_transport_handshake(struct gyre_transport *transport) {
  if (transport->handshaken) return 0;
  if (transport->read.state == GYRE_SIDE_FAILED) return transport->read.error;
  int error = transport->operations->handshake(transport);
  if (error == 0) transport->handshaken = true;
  if (error == 0 || error == -EAGAIN) return error;
  fail(&transport->write, error);
  return fail(&transport->read, error);
}

/* --- reading --- */

ssize_t gyre_transport_fill(struct gyre_transport *transport, size_t room) {
  if (transport->read.state == GYRE_SIDE_ENDED) return 0;
  if (transport->read.state == GYRE_SIDE_FAILED) return transport->read.error;
  char *place = gyre_bytes_reserve(&transport->input, room);
  if (!place) return -ENOMEM;
  ssize_t count = transport->operations->receive(transport, place, room);
  if (count > 0) {
    transport->input.length += (size_t)count;
    transport->received_bytes += (uint64_t)count;
    return count;
  }
  if (gyre_transport_available(transport) == 0) gyre_bytes_free(&transport->input);
  if (count < 0) return fail(&transport->read, (int)count);
  transport->read.state = GYRE_SIDE_ENDED;
  return 0;
}

void gyre_transport_consume(struct gyre_transport *transport, size_t length) {
  gyre_bytes_consume(&transport->input, length);
}

/* --- writing --- */

int gyre_transport_write(struct gyre_transport *transport, const void *bytes, size_t length) {
  if (transport->write.state == GYRE_SIDE_FAILED) return transport->write.error;
  if (transport->write.state != GYRE_SIDE_OPEN) return -EPIPE;
  if (length == 0) return 0;
  char *place = gyre_bytes_reserve(&transport->output, length);
  if (!place) return -ENOMEM;
  memcpy(place, bytes, length);
  transport->output.length += length;
  return 0;
}

int gyre_transport_flush(struct gyre_transport *transport) {
  if (transport->write.state == GYRE_SIDE_FAILED) return transport->write.error;
  struct gyre_bytes *output = &transport->output;
  while (output->length > output->offset) {
    ssize_t count = transport->operations->send(transport, output->bytes + output->offset, output->length - output->offset);
    if (count < 0) {
      if (count != -EAGAIN) gyre_bytes_free(output);
      return fail(&transport->write, (int)count);
    }
    transport->sent_bytes += (uint64_t)count;
    gyre_bytes_consume(output, (size_t)count);
  }
  int error = transport->operations->flush ? transport->operations->flush(transport) : 0;
  if (error < 0) return fail(&transport->write, error);
  if (transport->write.state != GYRE_SIDE_ENDING) return 0;
  error = transport->operations->end(transport);
  if (error < 0) return fail(&transport->write, error);
  transport->write.state = GYRE_SIDE_ENDED;
  return 0;
}

int gyre_transport_end(struct gyre_transport *transport) {
  if (transport->write.state == GYRE_SIDE_ENDED) return 0;
  if (transport->write.state == GYRE_SIDE_OPEN) transport->write.state = GYRE_SIDE_ENDING;
  return gyre_transport_flush(transport);
}

/* --- plain sockets --- */

static ssize_t plain_receive(struct gyre_transport *transport, void *bytes, size_t length) {
  ssize_t count;
  do {
    count = gyre_recv(transport->fd, bytes, length, MSG_DONTWAIT);
  } while (count < 0 && errno == EINTR);
  if (count >= 0) return count;
  transport->read.wants = GYRE_READABLE;
  return errno == EWOULDBLOCK ? -EAGAIN : -errno;
}

static ssize_t plain_send(struct gyre_transport *transport, const void *bytes, size_t length) {
  ssize_t count;
  do {
    count = gyre_send(transport->fd, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (count < 0 && errno == EINTR);
  if (count >= 0) return count;
  transport->write.wants = GYRE_WRITABLE;
  return errno == EWOULDBLOCK ? -EAGAIN : -errno;
}

static int plain_end(struct gyre_transport *transport) {
  return shutdown(transport->fd, SHUT_WR) < 0 && errno != ENOTCONN ? -errno : 0;
}

static bool plain_pending(const struct gyre_transport *transport) {
  (void)transport;
  return false;
}

const struct gyre_transport_operations gyre_transport_plain = {
    .receive = plain_receive, .send = plain_send, .end = plain_end, .pending = plain_pending};
