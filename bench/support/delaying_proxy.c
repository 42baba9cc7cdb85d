/* A TCP proxy that holds what it gets for a given time, in each direction: a network with latency,
   without the right to set up one. bench/memcached starts it in front of memcached. It keeps the
   order, loses nothing, and has at most QUEUE_LIMIT bytes under way in a direction.
   Usage: delaying_proxy PORT TARGET_PORT DELAY_US */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PAIRS_LIMIT 256
#define READ_BYTES 65536
#define QUEUE_LIMIT (8u << 20)

/* Bytes that were read at once; size 0 is the end of the stream. */
struct chunk {
  struct chunk *next;
  int64_t due_ns;
  size_t size, sent;
  char bytes[];
};

struct direction {
  int from, to;
  struct chunk *first, *last;
  size_t queued;
  int input_ended, ended, blocked;
};

struct pair {
  int used;
  struct direction there, back;
};

static struct pair pairs[PAIRS_LIMIT];
static struct pollfd polled[1 + 2 * PAIRS_LIMIT];
static int64_t delay_ns;

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static int64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static struct sockaddr_in loopback(const char *port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

static int listen_on(const char *port) {
  struct sockaddr_in address = loopback(port);
  int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) fail("socket");
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 128)) fail("listen");
  return fd;
}

static void accept_one(int listener, const char *target) {
  struct sockaddr_in address = loopback(target);
  int on = 1, here = accept4(listener, NULL, NULL, SOCK_CLOEXEC), there;
  struct pair *pair = pairs;
  if (here < 0) return;
  while (pair < pairs + PAIRS_LIMIT && pair->used) pair++;
  there = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (pair == pairs + PAIRS_LIMIT || there < 0 || connect(there, (struct sockaddr *)&address, sizeof address)) {
    close(here);
    if (there >= 0) close(there);
    return;
  }
  setsockopt(here, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(there, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  *pair = (struct pair){.used = 1, .there = {.from = here, .to = there}, .back = {.from = there, .to = here}};
}

static void enqueue(struct direction *direction, const char *bytes, size_t size) {
  struct chunk *chunk = malloc(sizeof *chunk + size);
  if (!chunk) fail("malloc");
  *chunk = (struct chunk){.due_ns = now_ns() + delay_ns, .size = size};
  if (size) memcpy(chunk->bytes, bytes, size);
  if (direction->last)
    direction->last->next = chunk;
  else
    direction->first = chunk;
  direction->last = chunk;
  direction->queued += size;
}

static void take_in(struct direction *direction) {
  static char bytes[READ_BYTES];
  ssize_t size = recv(direction->from, bytes, sizeof bytes, MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) direction->input_ended = 1;
  enqueue(direction, bytes, size > 0 ? (size_t)size : 0);
}

static void drop_first(struct direction *direction) {
  struct chunk *chunk = direction->first;
  direction->first = chunk->next;
  if (!direction->first) direction->last = NULL;
  direction->queued -= chunk->size;
  free(chunk);
}

/* Sends what is due; a receiver that is gone ends the direction. */
static void give_out(struct direction *direction) {
  int64_t now = now_ns();
  direction->blocked = 0;
  while (direction->first && direction->first->due_ns <= now) {
    struct chunk *chunk = direction->first;
    ssize_t sent = 0;
    if (!chunk->size) {
      shutdown(direction->to, SHUT_WR);
      direction->ended = 1;
    } else if (!direction->ended) {
      sent = send(direction->to, chunk->bytes + chunk->sent, chunk->size - chunk->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno == EAGAIN) {
        direction->blocked = 1;
        return;
      }
      if (sent < 0)
        direction->ended = direction->input_ended = 1;
      else if ((chunk->sent += (size_t)sent) < chunk->size)
        continue;
    }
    drop_first(direction);
  }
}

static int finished(const struct direction *direction) {
  return direction->ended && direction->input_ended && !direction->first;
}

static short wanted(const struct direction *input, const struct direction *output) {
  short events = !input->input_ended && input->queued < QUEUE_LIMIT ? POLLIN : 0;
  return output->blocked ? (short)(events | POLLOUT) : events;
}

/* Fills `polled`, and returns when the first chunk is due, 0 for never. */
static int64_t prepare(nfds_t *count) {
  int64_t due = 0;
  *count = 1;
  for (struct pair *pair = pairs; pair < pairs + PAIRS_LIMIT; pair++) {
    if (!pair->used) continue;
    give_out(&pair->there);
    give_out(&pair->back);
    if (finished(&pair->there) && finished(&pair->back)) {
      close(pair->there.from);
      close(pair->back.from);
      pair->used = 0;
      continue;
    }
    short here = wanted(&pair->there, &pair->back), there = wanted(&pair->back, &pair->there);
    polled[(*count)++] = (struct pollfd){.fd = here ? pair->there.from : -1, .events = here};
    polled[(*count)++] = (struct pollfd){.fd = there ? pair->back.from : -1, .events = there};
    for (int side = 0; side < 2; side++) {
      struct direction *direction = side ? &pair->back : &pair->there;
      struct chunk *first = direction->first;
      if (first && !direction->blocked && (!due || first->due_ns < due)) due = first->due_ns;
    }
  }
  return due;
}

int main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: %s PORT TARGET_PORT DELAY_US\n", argv[0]);
    return 2;
  }
  delay_ns = atoll(argv[3]) * 1000;
  signal(SIGPIPE, SIG_IGN);
  prctl(PR_SET_TIMERSLACK, 1L);
  int listener = listen_on(argv[1]);
  for (;;) {
    nfds_t count, index = 1;
    int64_t due = prepare(&count), left = due - now_ns();
    struct timespec wait = {0};
    if (left > 0) wait = (struct timespec){.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
    polled[0] = (struct pollfd){.fd = listener, .events = POLLIN};
    if (ppoll(polled, count, due ? &wait : NULL, NULL) <= 0) continue;
    for (struct pair *pair = pairs; index < count; pair++) {
      if (!pair->used) continue;
      if (polled[index++].revents & (POLLIN | POLLHUP | POLLERR) && !pair->there.input_ended) take_in(&pair->there);
      if (polled[index++].revents & (POLLIN | POLLHUP | POLLERR) && !pair->back.input_ended) take_in(&pair->back);
    }
    if (polled[0].revents & POLLIN) accept_one(listener, argv[2]);
  }
}
