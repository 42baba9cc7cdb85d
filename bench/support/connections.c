/* Load client for bench/http: holds many keep-alive connections from one process and reports when
 * all have answered. Started by Bench::Connections, compiled by Bench::Setup. One thread, epoll;
 * never the bottleneck at 20,000 connections.
 *
 *   connections PORT COUNT          then, a line each on standard input, one line of answer each:
 *   open PATH CONNECTING UNANSWERED connect all, GET PATH on each; at most so many at once that connect, that wait
 *   ask PATH                        GET PATH on every connection at once
 *   every answer: answered=N failed=N seconds=S        (end of input closes all and ends)
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef IP_BIND_ADDRESS_NO_PORT
#define IP_BIND_ADDRESS_NO_PORT 24
#endif

enum state { UNUSED, CONNECTING, WAITING, IDLE, FAILED };

struct connection {
  int fd;
  enum state state;
  int filled;
  long body_left; /* -1: head not complete yet */
  char head[1024];
};

static struct connection *connections;
static int count, port, poller;
static int connecting, waiting, answered, failed;
static char request[1024];
static size_t request_length;

static const double time_limit_s = 60;
static const int sources = 8; /* 127.0.0.1 to 127.0.0.8, 28,000 ports each */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void fail(struct connection *c) {
  if (c->state == CONNECTING) connecting--;
  if (c->state == WAITING) waiting--;
  if (c->fd >= 0) close(c->fd);
  c->fd = -1;
  c->state = FAILED;
  failed++;
}

static void send_request(struct connection *c) {
  ssize_t sent = send(c->fd, request, request_length, MSG_NOSIGNAL);
  if (sent != (ssize_t)request_length) { /* a request fits in any empty socket buffer */
    fail(c);
    return;
  }
  if (c->state == CONNECTING) connecting--;
  c->state = WAITING;
  c->filled = 0;
  c->body_left = -1;
  waiting++;
}

static void start(struct connection *c, int index) {
  struct sockaddr_in from = {.sin_family = AF_INET}, to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET | EPOLLRDHUP, .data.u32 = (uint32_t)index};
  int on = 1;

  from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + (uint32_t)(index % sources));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  c->state = CONNECTING;
  connecting++;
  c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  if (c->fd < 0) {
    fail(c);
    return;
  }
  setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(c->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
  if (bind(c->fd, (struct sockaddr *)&from, sizeof from) < 0 ||
      (connect(c->fd, (struct sockaddr *)&to, sizeof to) < 0 && errno != EINPROGRESS) ||
      epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &event) < 0)
    fail(c);
}

/* The head is in c->head, NUL-terminated: a 200 with a content-length, or something unknown. */
static long body_length(const char *head) {
  const char *field = strcasestr(head, "\r\ncontent-length:");
  if (strncmp(head, "HTTP/1.1 200", 12) != 0 || !field) return -1;
  return strtol(field + 17, NULL, 10);
}

static void complete(struct connection *c) {
  c->state = IDLE;
  waiting--;
  answered++;
}

static void receive(struct connection *c) {
  static char scratch[65536];
  for (;;) {
    ssize_t got;
    if (c->state == WAITING && c->body_left < 0) {
      char *end;
      got = recv(c->fd, c->head + c->filled, sizeof c->head - 1 - (size_t)c->filled, 0);
      if (got > 0) {
        c->filled += (int)got;
        c->head[c->filled] = 0;
        end = strstr(c->head, "\r\n\r\n");
        if (end) {
          long length = body_length(c->head);
          c->body_left = length < 0 ? -2 : length - (c->filled - (end + 4 - c->head));
        }
        if (c->body_left < -1 || (c->body_left == -1 && c->filled == sizeof c->head - 1)) {
          fail(c);
          return;
        }
      }
    } else {
      got = recv(c->fd, scratch, sizeof scratch, 0);
      if (got > 0) c->body_left -= got;
    }
    if (got == 0 || (got < 0 && errno != EAGAIN)) { /* the server hung up, before its answer or after it */
      fail(c);
      return;
    }
    if (got < 0) return;
    if (c->state == WAITING && c->body_left == 0) complete(c);
    if (c->body_left < -1) {
      fail(c);
      return;
    }
  }
}

static void connected(struct connection *c) {
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size);
  if (error)
    fail(c);
  else
    send_request(c);
}

static void turn(int timeout_ms) {
  struct epoll_event events[512];
  int ready = epoll_wait(poller, events, 512, timeout_ms);
  for (int i = 0; i < ready; i++) {
    struct connection *c = &connections[events[i].data.u32];
    if (c->state == CONNECTING && (events[i].events & (EPOLLOUT | EPOLLERR | EPOLLHUP))) connected(c);
    if ((c->state == WAITING || c->state == IDLE) && (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLRDHUP))) receive(c);
  }
}

static void prepare(const char *path) {
  request_length =
      (size_t)snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n", path, port);
  answered = failed = 0;
}

static void open_all(int connecting_limit, int unanswered_limit) {
  double limit = now() + time_limit_s;
  for (int next = 0; (next < count || connecting + waiting > 0) && now() < limit;) {
    while (next < count && connecting < connecting_limit && connecting + waiting < unanswered_limit) {
      start(&connections[next], next);
      next++;
    }
    turn(100);
  }
}

static void ask_all(void) {
  double limit = now() + time_limit_s;
  for (int i = 0; i < count; i++) {
    if (connections[i].state == IDLE) send_request(&connections[i]);
    if (i % 64 == 63) turn(0); /* so that the first answers do not wait for the last questions */
  }
  while (waiting > 0 && now() < limit) turn(100);
}

int main(int argc, char **argv) {
  char line[512], path[256];
  int connecting_limit, unanswered_limit;

  if (argc != 3) {
    fprintf(stderr, "usage: connections PORT COUNT\n");
    return 2;
  }
  port = atoi(argv[1]);
  count = atoi(argv[2]);
  poller = epoll_create1(EPOLL_CLOEXEC);
  connections = calloc((size_t)count, sizeof *connections);
  if (poller < 0 || !connections) {
    perror("connections");
    return 1;
  }
  while (fgets(line, sizeof line, stdin)) {
    double begin = now();
    if (sscanf(line, "open %255s %d %d", path, &connecting_limit, &unanswered_limit) == 3) {
      prepare(path);
      open_all(connecting_limit, unanswered_limit);
    } else if (sscanf(line, "ask %255s", path) == 1) {
      prepare(path);
      ask_all();
    } else {
      fprintf(stderr, "connections: unknown command: %s", line);
      return 2;
    }
    printf("answered=%d failed=%d seconds=%.3f\n", answered, failed + connecting + waiting, now() - begin);
    fflush(stdout);
  }
  return 0;
}
