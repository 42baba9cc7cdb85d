/*
 * The WebSockets that bench/realtime compares Gyre's with: C straight on epoll, one thread, no
 * buffers of its own, no checks beside the frame's length. /echo sends a message back, /room to all
 * sockets of that path. Started as websocket_reference PORT.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define BYTES 16384
#define HEAD_BYTES 6 /* of a short frame with its mask */
#define GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

#define ROOM_SOCKETS 65536

struct connection {
  int fd, open, place; /* in the room, or -1 */
};

static int epoll_fd, members;
static struct connection *room[ROOM_SOCKETS];

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static void end(struct connection *connection) {
  if (connection->place >= 0) {
    room[connection->place] = room[--members];
    room[connection->place]->place = connection->place;
  }
  close(connection->fd);
  free(connection);
}

static int send_all(int fd, const char *bytes, size_t count) {
  return send(fd, bytes, count, MSG_NOSIGNAL) == (ssize_t)count;
}

/* The head comes in one piece from the load's clients. */
static int shake_hands(struct connection *connection, const char *head) {
  const char *key = strstr(head, "Sec-WebSocket-Key: ");
  if (!key) return 0;
  char text[64 + sizeof(GUID)], answer[256], accepted[64];
  unsigned char digest[SHA_DIGEST_LENGTH];
  int length = (int)strcspn(key + 19, "\r\n");
  if (length > 64) return 0;
  int size = snprintf(text, sizeof(text), "%.*s" GUID, length, key + 19);
  SHA1((unsigned char *)text, (size_t)size, digest);
  EVP_EncodeBlock((unsigned char *)accepted, digest, SHA_DIGEST_LENGTH);
  size = snprintf(answer, sizeof(answer),
                  "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "
                  "websocket\r\nSec-WebSocket-Accept: %s\r\n\r\n",
                  accepted);
  connection->open = 1;
  if (strncmp(head, "GET /room ", 10) == 0 && members < ROOM_SOCKETS) {
    connection->place = members;
    room[members++] = connection;
  }
  return send_all(connection->fd, answer, (size_t)size);
}

/* All frames that came go back, or to the room, in one call each. The load's are short and
 * complete. */
static int echo(struct connection *connection, char *bytes, size_t count) {
  size_t out = 0;
  for (size_t at = 0; at + HEAD_BYTES <= count;) {
    size_t length = (unsigned char)bytes[at + 1] & 0x7f;
    const char *mask = bytes + at + 2, *payload = bytes + at + HEAD_BYTES;
    if (length > 125 || at + HEAD_BYTES + length > count) return 0;
    char first[4] = {mask[0], mask[1], mask[2], mask[3]}, opcode = bytes[at];
    at += HEAD_BYTES + length;
    if ((opcode & 0x0f) > 2) return 0;
    bytes[out++] = opcode;
    bytes[out++] = (char)length;
    for (size_t i = 0; i < length; i++) bytes[out++] = (char)(payload[i] ^ first[i & 3]);
  }
  if (connection->place < 0) return send_all(connection->fd, bytes, out);
  for (int i = 0; i < members; i++) send_all(room[i]->fd, bytes, out);
  return 1;
}

static void serve(struct connection *connection) {
  static char bytes[BYTES + 1];
  ssize_t count = recv(connection->fd, bytes, BYTES, 0);
  if (count > 0) bytes[count] = '\0';
  if (count <= 0 || !(connection->open ? echo(connection, bytes, (size_t)count) : shake_hands(connection, bytes)))
    end(connection);
}

static void take(int listener) {
  int fd;
  while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    struct connection *connection = calloc(1, sizeof(*connection));
    if (!connection) fail("calloc");
    connection->fd = fd;
    connection->place = -1;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) fail("epoll_ctl");
  }
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  signal(SIGPIPE, SIG_IGN);
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[1]))};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(listener, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(listener, 4096) < 0) fail("listen");
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
