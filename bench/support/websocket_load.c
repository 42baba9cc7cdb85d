/*
 * The load of bench/realtime. Started by bench/support/realtime_suite.rb as
 * websocket_load KIND PORT CLIENTS BYTES with KIND
 *   echo       each client sends a message and waits for its echo; counts echoes
 *   broadcast  the first client sends a message, which all get, and waits until all have it; counts
 *              deliveries
 *   burst      the same, with 100 messages at a time
 *   sockets    each client is left alone once it is open
 *   events     the same for event streams
 *   cables     the same for Action Cable, at /cable
 *   room       broadcast by Action Cable: each client subscribes to RoomChannel, whose action speak
 *              sends all a text
 * Once its clients are open it prints "ready". For each line of its input, a number of seconds, all
 * but the idle ones then send that long, await what is under way and print "messages=N seconds=S
 * half_ms=T", T being the mean time until half of the clients had a message. It holds its clients
 * until its input ends.
 * It never sleeps while it measures: the kernel charges the waking of a client on this machine to
 * the server that sends, which clients elsewhere never cost.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define HEAD_BYTES 2
#define MASK_BYTES 4
#define CLIENTS_AN_ADDRESS 5000 /* a port is found quickly while most of an address are free */
#define TIMEOUT_S 10
#define UPGRADE                                                                                                        \
  "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"                                         \
  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

#define CABLE_BYTES 512 /* for the frames of a cable that have come in part */
#define ROOM "\"identifier\":\"{\\\"channel\\\":\\\"RoomChannel\\\"}\""

struct client {
  int fd;
  size_t received; /* of the message that it waits for, or in `cable` */
  char *cable;     /* what has come; NULL unless it is in a room */
};

static struct client *clients;
static int count, epoll_fd, under_way, ending;
static size_t bytes, frame_bytes, sent_bytes;
static char *frame, *sent, *buffer; /* a frame as it comes, and as a client sends it */
static long messages, rounds;
static double said_s, halves_s;
static int broadcast, cables, room, burst = 1;

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static void make_frames(void) {
  if (bytes > 125) {
    fputs("at most 125 bytes\n", stderr);
    exit(1);
  }
  frame_bytes = HEAD_BYTES + bytes;
  sent_bytes = frame_bytes + MASK_BYTES;
  frame = malloc(frame_bytes);
  sent = malloc(sent_bytes * (size_t)burst);
  buffer = malloc(65536);
  if (!frame || !sent || !buffer) fail("memory");
  static const unsigned char mask[MASK_BYTES] = {0x37, 0xfa, 0x21, 0x3d};
  frame[0] = sent[0] = (char)0x81;
  frame[1] = (char)bytes;
  sent[1] = (char)(0x80 | bytes);
  memcpy(sent + HEAD_BYTES, mask, MASK_BYTES);
  for (size_t i = 0; i < bytes; i++) {
    frame[HEAD_BYTES + i] = (char)('a' + i % 26);
    sent[HEAD_BYTES + MASK_BYTES + i] = (char)(frame[HEAD_BYTES + i] ^ mask[i % MASK_BYTES]);
  }
  for (int i = 1; i < burst; i++) memcpy(sent + (size_t)i * sent_bytes, sent, sent_bytes);
  sent_bytes *= (size_t)burst;
}

/* A cable's message as a client sends it, with a mask of zeros. */
static size_t make_command(char *into, const char *text) {
  size_t length = strlen(text), head = length > 125 ? 8 : 6;
  memset(into, 0, head);
  into[0] = (char)0x81;
  into[1] = (char)(0x80 | (length > 125 ? 126 : length));
  if (length > 125) {
    into[2] = (char)(length >> 8);
    into[3] = (char)length;
  }
  memcpy(into + head, text, length);
  return head + length;
}

static void say(struct client *client) {
  said_s = now_s();
  under_way += broadcast ? count * burst : 1;
  if (send(client->fd, sent, sent_bytes, MSG_NOSIGNAL) != (ssize_t)sent_bytes) fail("send");
}

static int connected(int index, int port) {
  int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  struct sockaddr_in address = {.sin_family = AF_INET};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + (uint32_t)(index / CLIENTS_AN_ADDRESS));
  setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on)); /* connect chooses it */
  if (fd < 0) fail("socket");
  if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0) fail("bind");
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons((uint16_t)port);
  if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) fail("connect");
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return fd;
}

/* Blocks. Only event streams and Action Cable may send something behind the head, which is not
 * looked at. */
static void open_client(struct client *client, int port, int events) {
  char request[512], head[4096];
  size_t length = 0;
  client->fd = connected((int)(client - clients), port);
  int size = snprintf(request, sizeof(request), "GET /%s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n%s\r\n",
                      cables      ? "cable"
                      : broadcast ? "room"
                      : events    ? "events"
                                  : "echo",
                      port,
                      events   ? "Accept: text/event-stream\r\n"
                      : cables ? UPGRADE "Sec-WebSocket-Protocol: actioncable-v1-json\r\n"
                               : UPGRADE);
  if (send(client->fd, request, (size_t)size, 0) != size) fail("send");
  do {
    ssize_t got = recv(client->fd, head + length, sizeof(head) - 1 - length, 0);
    if (got <= 0) {
      fprintf(stderr, "client %d of %d got %s instead of its head\n", (int)(client - clients) + 1, count,
              got < 0 ? strerror(errno) : "an end of file");
      exit(1);
    }
    length += (size_t)got;
    head[length] = '\0';
  } while (!strstr(head, "\r\n\r\n"));
  if (memcmp(head, events ? "HTTP/1.1 200" : "HTTP/1.1 101", 12) != 0) {
    fprintf(stderr, "the server answered: %.60s\n", head);
    exit(1);
  }
}

/* Returns the number of messages of the room among the frames that are whole; keeps the rest. */
static int take_frames(struct client *client, const char *wanted) {
  size_t at = 0, size = 0, head;
  int found = 0;
  while (client->received - at >= 4) {
    const unsigned char *start = (const unsigned char *)client->cable + at;
    head = start[1] == 126 ? 4 : 2;
    size = start[1] == 126 ? (size_t)(start[2] << 8 | start[3]) : start[1];
    if (start[1] > 126 || head + size > CABLE_BYTES) {
      fputs("a frame of a cable is too long\n", stderr);
      exit(1);
    }
    if (client->received - at < head + size) break;
    found += memmem(start + head, size, wanted, strlen(wanted)) != NULL;
    at += head + size;
  }
  memmove(client->cable, client->cable + at, client->received - at);
  client->received -= at;
  return found;
}

static ssize_t fill_cable(struct client *client, int flags) {
  ssize_t got = recv(client->fd, client->cable + client->received, CABLE_BYTES - client->received, flags);
  if (got > 0) client->received += (size_t)got;
  return got;
}

static void subscribe(struct client *client) {
  char command[256];
  size_t size = make_command(command, "{\"command\":\"subscribe\"," ROOM "}");
  client->cable = malloc(CABLE_BYTES);
  if (!client->cable) fail("memory");
  if (send(client->fd, command, size, 0) != (ssize_t)size) fail("send");
}

static void await_subscription(struct client *client) {
  do {
    if (fill_cable(client, 0) <= 0) fail("subscribe");
  } while (!take_frames(client, "confirm_subscription"));
}

static void echo_once(struct client *client) {
  say(client);
  under_way--;
  if (recv(client->fd, buffer, frame_bytes, MSG_WAITALL) != (ssize_t)frame_bytes ||
      memcmp(buffer, frame, frame_bytes) != 0)
    fail("first echo");
}

static void complete(struct client *client) {
  messages++;
  under_way--;
  if (broadcast && under_way == count * burst / 2) {
    halves_s += now_s() - said_s;
    rounds++;
  }
  if (!ending && (!broadcast || under_way == 0)) say(broadcast ? clients : client);
}

static void receive(struct client *client) {
  ssize_t got = room ? fill_cable(client, MSG_DONTWAIT) : recv(client->fd, buffer, 65536, MSG_DONTWAIT);
  if (got <= 0) {
    if (got < 0 && errno == EAGAIN) return;
    fail("receive");
  }
  if (room) {
    for (int found = take_frames(client, "\"message\":\""); found > 0; found--) complete(client);
    return;
  }
  for (ssize_t at = 0; at < got;) {
    size_t part = frame_bytes - client->received;
    if (part > (size_t)(got - at)) part = (size_t)(got - at);
    if (memcmp(buffer + at, frame + client->received, part) != 0) {
      fputs("another message came\n", stderr);
      exit(1);
    }
    at += (ssize_t)part;
    client->received += part;
    if (client->received < frame_bytes) return;
    client->received = 0;
    complete(client);
  }
}

static void measure(double seconds) {
  struct epoll_event ready[256];
  double begin_s = now_s(), now = begin_s, heard_s = begin_s;
  messages = rounds = ending = 0;
  halves_s = 0;
  for (int i = 0; i < (broadcast ? 1 : count); i++) say(&clients[i]);
  while (under_way) {
    int some = epoll_wait(epoll_fd, ready, 256, 0);
    now = now_s();
    ending = now - begin_s >= seconds;
    if (some > 0) heard_s = now;
    if (now - heard_s > TIMEOUT_S) {
      fprintf(stderr, "nothing came for %d s\n", TIMEOUT_S);
      exit(1);
    }
    for (int i = 0; i < some; i++) receive(ready[i].data.ptr);
  }
  printf("messages=%ld seconds=%.6f half_ms=%.3f\n", messages, now - begin_s,
         rounds ? halves_s / (double)rounds * 1e3 : 0);
  fflush(stdout);
}

int main(int argc, char **argv) {
  if (argc < 5) return 2;
  signal(SIGPIPE, SIG_IGN);
  const char *kind = argv[1];
  int port = atoi(argv[2]), events = strcmp(kind, "events") == 0;
  room = strcmp(kind, "room") == 0;
  cables = room || strcmp(kind, "cables") == 0;
  int idle = cables || strcmp(kind, "sockets") == 0;
  count = atoi(argv[3]);
  bytes = (size_t)atoi(argv[4]);
  if (strcmp(kind, "burst") == 0) burst = 100;
  broadcast = room || burst > 1 || strcmp(kind, "broadcast") == 0;
  make_frames();
  if (room) {
    free(sent);
    sent = malloc(512);
    if (!sent) fail("memory");
    sent_bytes = make_command(sent, "{\"command\":\"message\"," ROOM ",\"data\":\"{\\\"action\\\":\\\"speak\\\"}\"}");
  }
  clients = calloc((size_t)count, sizeof(*clients));
  if (!clients) fail("memory");
  for (int i = 0; i < count; i++) {
    open_client(&clients[i], port, events);
    if (room) subscribe(&clients[i]);
    if (!broadcast && !events && !idle) echo_once(&clients[i]);
  }
  for (int i = 0; room && i < count; i++) await_subscription(&clients[i]);
  epoll_fd = epoll_create1(0);
  for (int i = 0; i < count; i++) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &clients[i]};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, clients[i].fd, &event);
  }
  puts("ready");
  fflush(stdout);
  char line[32];
  while (fgets(line, sizeof(line), stdin)) measure(atof(line));
  return 0;
}
