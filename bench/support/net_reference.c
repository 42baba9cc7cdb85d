/*
 * What bench/net compares Gyre's streams and datagrams with: an echo server in C, straight on
 * epoll, one thread, without buffers of its own: plain, with libssl, or over UDP with a call for
 * each packet (udp) or for 16 (mmsg). Started by bench/support/net_suite.rb:
 * net_reference plain|udp|mmsg PORT, or net_reference tls PORT CERTIFICATE KEY.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define BYTES 16384
#define PACKETS 16
#define PACKET_BYTES 65536

struct connection {
  int fd;
  SSL *ssl; /* NULL without TLS */
  int handshaken;
};

static SSL_CTX *context;
static int epoll_fd;

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static void end(struct connection *connection) {
  if (connection->ssl) SSL_free(connection->ssl);
  close(connection->fd);
  free(connection);
}

/* Everything that is there goes back. A write is not waited for: no client has more than one
 * message under way. */
static void serve(struct connection *connection) {
  static char bytes[BYTES];
  if (connection->ssl && !connection->handshaken) {
    int result = SSL_accept(connection->ssl);
    if (result <= 0) {
      if (SSL_get_error(connection->ssl, result) != SSL_ERROR_WANT_READ) end(connection);
      return;
    }
    connection->handshaken = 1;
  }
  for (;;) {
    long count;
    if (connection->ssl) {
      count = SSL_read(connection->ssl, bytes, sizeof(bytes));
      if (count <= 0 && SSL_get_error(connection->ssl, (int)count) == SSL_ERROR_WANT_READ) return;
      if (count > 0 && SSL_write(connection->ssl, bytes, (int)count) != count) count = -1;
    } else {
      count = recv(connection->fd, bytes, sizeof(bytes), 0);
      if (count < 0 && errno == EAGAIN) return;
      if (count > 0 && send(connection->fd, bytes, (size_t)count, MSG_NOSIGNAL) != count) count = -1;
    }
    if (count <= 0) {
      end(connection);
      return;
    }
    if (!connection->ssl && count < BYTES) return; /* a short read has emptied the socket */
    if (connection->ssl && SSL_has_pending(connection->ssl) == 0) return;
  }
}

static void take(int listener) {
  int fd;
  while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    struct connection *connection = calloc(1, sizeof(*connection));
    if (!connection) fail("calloc");
    connection->fd = fd;
    if (context) {
      connection->ssl = SSL_new(context);
      SSL_set_fd(connection->ssl, fd);
    }
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) fail("epoll_ctl");
  }
}

/* One packet after another: until there is none. */
static void echo_packets(int fd) {
  static char bytes[PACKET_BYTES];
  for (;;) {
    struct sockaddr_in from;
    socklen_t length = sizeof(from);
    ssize_t count = recvfrom(fd, bytes, sizeof(bytes), 0, (struct sockaddr *)&from, &length);
    if (count < 0) return;
    sendto(fd, bytes, (size_t)count, 0, (struct sockaddr *)&from, length);
  }
}

/* As many as there are, PACKETS at most, in one call each way. */
static void echo_batches(int fd) {
  static char bytes[PACKETS][PACKET_BYTES];
  struct mmsghdr messages[PACKETS];
  struct iovec parts[PACKETS];
  struct sockaddr_in from[PACKETS];
  int count;
  do {
    for (int i = 0; i < PACKETS; i++) {
      parts[i] = (struct iovec){bytes[i], PACKET_BYTES};
      messages[i].msg_hdr =
          (struct msghdr){.msg_name = &from[i], .msg_namelen = sizeof(from[i]), .msg_iov = &parts[i], .msg_iovlen = 1};
    }
    count = recvmmsg(fd, messages, PACKETS, 0, NULL);
    for (int i = 0; i < count; i++) parts[i].iov_len = messages[i].msg_len;
    for (int sent = 0, more; sent < count; sent += more) {
      more = sendmmsg(fd, messages + sent, (unsigned)(count - sent), 0);
      if (more <= 0) break;
    }
  } while (count == PACKETS);
}

static int serve_datagrams(const struct sockaddr_in *address, void (*echo)(int fd)) {
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
  if (bind(fd, (const struct sockaddr *)address, sizeof(*address)) < 0) fail("bind");
  epoll_fd = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
  epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
  for (;;)
    if (epoll_wait(epoll_fd, &event, 1, -1) > 0) echo(fd);
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  signal(SIGPIPE, SIG_IGN);
  if (strcmp(argv[1], "tls") == 0) {
    context = SSL_CTX_new(TLS_server_method());
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    if (argc < 5 || SSL_CTX_use_certificate_chain_file(context, argv[3]) != 1 ||
        SSL_CTX_use_PrivateKey_file(context, argv[4], SSL_FILETYPE_PEM) != 1)
      fail("certificate");
  }
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[2]))};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(listener, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(listener, 4096) < 0) fail("listen");
  if (strcmp(argv[1], "udp") == 0) return serve_datagrams(&address, echo_packets);
  if (strcmp(argv[1], "mmsg") == 0) return serve_datagrams(&address, echo_batches);
  epoll_fd = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL}, events[256];
  epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &event);
  for (;;) {
    int count = epoll_wait(epoll_fd, events, 256, -1);
    for (int i = 0; i < count; i++) {
      if (events[i].data.ptr) {
        serve(events[i].data.ptr);
      } else {
        take(listener);
      }
    }
  }
}
