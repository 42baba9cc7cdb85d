/*
 * The load of bench/net and event_machine: clients that send a message and wait for its echo, each
 * as fast as it can. Started by bench/support as net_load KIND PORT CLIENTS BYTES with KIND plain,
 * lines (of 64 bytes), tls or udp, it opens its clients, makes one echo on each and prints
 * "ready". For each line of its input, a number of seconds, it makes echoes that long, awaits those
 * under way and prints "messages=N seconds=S lost=N". It holds its clients until its input ends.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define RESEND_S 0.2
#define LINE_BYTES 64

struct client {
  int fd;
  SSL *ssl;
  size_t received;
  double sent_s;
};

static struct client *clients;
static int count, epoll_fd, opened, under_way, ending;
static size_t bytes;
static char *message, *buffer;
static long echoes, lost;
static SSL_CTX *context;

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static void say(struct client *client) {
  client->received = 0;
  client->sent_s = now_s();
  under_way++;
  long sent =
      client->ssl ? SSL_write(client->ssl, message, (int)bytes) : send(client->fd, message, bytes, MSG_NOSIGNAL);
  if (sent != (long)bytes && !(sent < 0 && (errno == EAGAIN || errno == ECONNREFUSED))) fail("send");
}

/* Blocks: what is measured comes afterwards. */
static void open_client(struct client *client, const char *kind, int port) {
  int datagram = strcmp(kind, "udp") == 0, on = 1;
  client->fd = socket(AF_INET, datagram ? SOCK_DGRAM : SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET};
  address.sin_addr.s_addr =
      htonl(INADDR_LOOPBACK + (uint32_t)(opened % 8)); /* ports of one address are not enough, run after run */
  if (!datagram) bind(client->fd, (struct sockaddr *)&address, sizeof(address));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons((uint16_t)port);
  if (client->fd < 0 || connect(client->fd, (struct sockaddr *)&address, sizeof(address)) < 0) fail("connect");
  if (!datagram) setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (context) {
    client->ssl = SSL_new(context);
    SSL_set_fd(client->ssl, client->fd);
    if (SSL_connect(client->ssl) != 1) fail("handshake");
  }
  opened++;
}

static void echo_once(struct client *client) {
  say(client);
  while (client->received < bytes) {
    long got = client->ssl ? SSL_read(client->ssl, buffer, (int)bytes) : recv(client->fd, buffer, bytes, 0);
    if (got <= 0) fail("receive");
    client->received += (size_t)got;
  }
  under_way--;
}

/* Edge-triggered, so it reads until nothing is there. */
static void read_echoes(struct client *client, int datagram) {
  for (;;) {
    long got = client->ssl ? SSL_read(client->ssl, buffer, (int)bytes) : recv(client->fd, buffer, bytes, MSG_DONTWAIT);
    if (got <= 0) {
      if (client->ssl ? SSL_get_error(client->ssl, (int)got) == SSL_ERROR_WANT_READ : errno == EAGAIN) return;
      if (datagram && errno == ECONNREFUSED) return;
      fail("receive");
    }
    if (memcmp(buffer, message + client->received % bytes, (size_t)got) != 0) {
      fprintf(stderr, "another message came back\n");
      exit(1);
    }
    client->received += (size_t)got;
    if (client->received < bytes) continue;
    echoes++;
    client->sent_s = 0;
    under_way--;
    if (ending) return;
    say(client);
    if (!client->ssl) return;
  }
}

/* Datagrams that got lost are sent again; at the end they are given up. */
static void look_for_lost(double now) {
  for (int i = 0; i < count; i++) {
    if (clients[i].sent_s == 0 || now - clients[i].sent_s < RESEND_S) continue;
    lost++;
    under_way--;
    clients[i].sent_s = 0;
    if (!ending) say(&clients[i]);
  }
}

static void make_echoes(double seconds, int datagram) {
  struct epoll_event events[256];
  echoes = lost = ending = 0;
  for (int i = 0; i < count; i++) say(&clients[i]);
  double begin_s = now_s(), looked_s = begin_s, now = begin_s;
  while (under_way) {
    int ready = epoll_wait(epoll_fd, events, 256, 50);
    for (int i = 0; i < ready; i++) read_echoes(events[i].data.ptr, datagram);
    now = now_s();
    ending = now - begin_s >= seconds;
    if (!datagram || now - looked_s < RESEND_S) continue;
    looked_s = now;
    look_for_lost(now);
  }
  printf("messages=%ld seconds=%.6f lost=%ld\n", echoes, now - begin_s, lost);
  fflush(stdout);
}

int main(int argc, char **argv) {
  if (argc < 5) return 2;
  signal(SIGPIPE, SIG_IGN);
  const char *kind = argv[1];
  int port = atoi(argv[2]), datagram = strcmp(kind, "udp") == 0;
  count = atoi(argv[3]);
  bytes = (size_t)atoi(argv[4]);
  if (strcmp(kind, "tls") == 0) {
    context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  }
  clients = calloc((size_t)count, sizeof(*clients));
  message = malloc(bytes);
  buffer = malloc(bytes);
  if (!clients || !message || !buffer) fail("memory");
  memset(message, 'm', bytes);
  if (strcmp(kind, "lines") == 0) {
    for (size_t end = LINE_BYTES; end <= bytes; end += LINE_BYTES) message[end - 1] = '\n';
  }
  for (int i = 0; i < count; i++) {
    open_client(&clients[i], kind, port);
    if (!datagram || i == 0) echo_once(&clients[i]);
  }
  epoll_fd = epoll_create1(0);
  for (int i = 0; i < count; i++) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = &clients[i]};
    fcntl(clients[i].fd, F_SETFL, O_NONBLOCK);
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, clients[i].fd, &event);
  }
  puts("ready");
  fflush(stdout);
  char line[32];
  while (fgets(line, sizeof(line), stdin)) make_echoes(atof(line), datagram);
  return 0;
}
