/* Reads a PROXY header (proxy_header.h): peeks (MSG_PEEK), then takes only the header. The
 * transport's input holds a partial one. */
#include "feature.h"

#include "loop/direct_calls.h"
#include "net/proxy_header.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

static ssize_t receive(int fd, void *bytes, size_t length, int flags) {
  ssize_t count = GYRE_RETRY(recv(fd, bytes, length, flags | MSG_DONTWAIT));
  if (count >= 0) return count;
  return errno == EWOULDBLOCK ? -EAGAIN : -errno;
}

int gyre_proxy_header_take(struct gyre_transport *transport, unsigned versions, struct gyre_proxy_source *source) {
  uint8_t bytes[GYRE_PROXY_BYTES];
  for (;;) {
    size_t held = gyre_transport_available(transport);
    if (held) memcpy(bytes, gyre_transport_input(transport), held);
    ssize_t count = receive(transport->fd, bytes + held, sizeof(bytes) - held, MSG_PEEK);
    if (count <= 0) return (int)count;
    int length = gyre_proxy_parse(bytes, held + (size_t)count, versions, source);
    if (length < 0) return -EPROTO;
    /* Takes a complete header's rest, or all bytes. */
    size_t taken = length > 0 ? (size_t)length - held : (size_t)count;
    ssize_t received = receive(transport->fd, bytes + held, taken, 0);
    if (received != (ssize_t)taken) return received < 0 ? (int)received : -EPROTO;
    if (length > 0) {
      gyre_transport_consume(transport, held);
      return 1;
    }
    int error = gyre_transport_keep(transport, bytes + held, taken);
    if (error < 0) return error;
  }
}
