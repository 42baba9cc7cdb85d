/* Load client for bench/log: sends numbered log messages from prebuilt buffers, follows the log
 * file until the last is in it, and checks what was written. Started by Bench::LogLoad, compiled by
 * Bench::Setup. One thread, epoll. It answers in "name=value" words.
 *
 *   log_load flood PORT WIRE SIZE COUNT CONNECTIONS FILE    prints "ready", waits for a line on standard input, sends all at once
 *   log_load trickle PORT WIRE SIZE RATE CONNECTIONS FILE SECONDS    RATE messages a second on each connection; FILE shows how late
 *   log_load verify FILE OFFSET SIZE COUNT CONNECTIONS      whether each of a flood's messages is in the file once, in order
 *
 * WIRE: analogger, records (Gyre's acknowledged one), syslog (<14>bench: TEXT), rfc5424,
 * rfc5424-octet.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SERVICE "bench"
#define SEVERITY "info"

enum wire { ANALOGGER, RECORDS, SYSLOG, RFC5424, RFC5424_OCTET };
static const char *const wires[] = {"analogger", "records", "syslog", "rfc5424", "rfc5424-octet"};

struct connection {
  int fd;
  bool blocked;
  char *bytes; /* all that it is to send */
  size_t length, sent;
  uint64_t sequence, acknowledged;
  char line[64]; /* an acknowledgement's beginning */
  size_t filled;
};

static enum wire wire;
static struct connection *connections;
static int count_of_connections, poller;
static size_t size;
static const double time_limit_s = 120, silence_limit_s = 10;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint64_t realtime_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void die(const char *what) {
  fprintf(stderr, "log_load: %s: %s\n", what, strerror(errno));
  exit(1);
}

static void *allocate(size_t bytes) {
  void *memory = malloc(bytes ? bytes : 1);
  if (!memory) die("memory");
  return memory;
}

/* --- messages
 * ------------------------------------------------------------------------------------------ */

/* A message names its number in its first 10 bytes; what follows depends on it too (log_client.rb
 * makes the same). */
static void message(char *to, uint64_t number) {
  for (size_t i = 10; i < size; i++) to[i] = (char)('a' + (number + i) % 26);
  for (int i = 9; i >= 0; i--, number /= 10) to[i] = (char)('0' + number % 10);
}

static uint32_t crc32(const unsigned char *bytes, size_t length) {
  static uint32_t table[256];
  uint32_t crc = 0xffffffffu;
  if (!table[1])
    for (uint32_t i = 0; i < 256; i++) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; bit++) value = value & 1 ? value >> 1 ^ 0xedb88320u : value >> 1;
      table[i] = value;
    }
  for (size_t i = 0; i < length; i++) crc = table[(crc ^ bytes[i]) & 255] ^ crc >> 8;
  return ~crc;
}

static void big_endian(unsigned char *to, uint64_t value, int bytes) {
  for (int i = bytes - 1; i >= 0; i--, value >>= 8) to[i] = (unsigned char)value;
}

static size_t record(char *to, const char *text, uint64_t sequence) {
  unsigned char *at = (unsigned char *)to;
  size_t length = 26 + sizeof SERVICE - 1 + sizeof SEVERITY - 1 + size;
  big_endian(at, length - 8, 4);
  big_endian(at + 8, sequence, 8);
  big_endian(at + 16, realtime_ns() / 1000, 8);
  at[24] = sizeof SERVICE - 1;
  at[25] = sizeof SEVERITY - 1;
  memcpy(at + 26, SERVICE SEVERITY, sizeof SERVICE - 1 + sizeof SEVERITY - 1);
  memcpy(at + length - size, text, size);
  big_endian(at + 4, crc32(at + 8, length - 8), 4);
  return length;
}

static size_t analogger_frame(char *to, const char *severity, const char *text, size_t text_length) {
  size_t length = 8 + sizeof SERVICE - 1 + strlen(severity) + text_length + 3;
  size_t head = (size_t)sprintf(to, "%04zu%04zu:" SERVICE ":%s:", length, length, severity);
  memcpy(to + head, text, text_length);
  return length;
}

/* One message on the wire. @return its length; there is room for HEAD_LIMIT bytes more than the
 * message's */
#define HEAD_LIMIT 128
static size_t frame(char *to, const char *text, uint64_t sequence) {
  size_t head;
  switch (wire) {
  case ANALOGGER: return analogger_frame(to, SEVERITY, text, size);
  case RECORDS: return record(to, text, sequence);
  case SYSLOG: head = (size_t)sprintf(to, "<14>" SERVICE ": "); break;
  case RFC5424:
    head = (size_t)sprintf(to, "<14>1 2026-11-21T19:20:00.123456Z host.example " SERVICE " 4711 - - ");
    break;
  default: {
    char rest[HEAD_LIMIT];
    size_t length = (size_t)sprintf(rest, "<14>1 2026-11-21T19:20:00.123456Z host.example " SERVICE " 4711 - - ");
    head = (size_t)sprintf(to, "%zu %s", length + size, rest);
  }
  }
  memcpy(to + head, text, size);
  if (wire == RFC5424_OCTET) return head + size;
  to[head + size] = '\n';
  return head + size + 1;
}

/* --- connections
 * ------------------------------------------------------------------------------------------ */

/* Old servers look at the last field only, ours at the severity's words too. */
static void authenticate(int fd, int index) {
  char words[128], bytes[256], reply[64] = "";
  size_t length;
  ssize_t got;
  if (wire != ANALOGGER && wire != RECORDS) return;
  if (wire == ANALOGGER)
    strcpy(words, "authentication");
  else
    sprintf(words, "authentication/2 client=%016llx%016x", (unsigned long long)realtime_ns(), (unsigned)index);
  length = analogger_frame(bytes, words, "", 0);
  if (write(fd, bytes, length) != (ssize_t)length) die("write");
  got = read(fd, reply, sizeof reply - 1);
  if (got <= 0 || strcmp(reply, wire == ANALOGGER ? "accepted\n" : "accepted 2\n") != 0) {
    fprintf(stderr, "log_load: the server said: %s\n", reply);
    exit(1);
  }
}

static void connect_all(int port) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  poller = epoll_create1(EPOLL_CLOEXEC);
  for (int i = 0; i < count_of_connections; i++) {
    struct connection *c = &connections[i];
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET | EPOLLRDHUP, .data.ptr = c};
    int on = 1;
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&to, sizeof to) < 0) die("connect");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    authenticate(c->fd, i);
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    if (epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &event) < 0) die("epoll");
  }
}

/* Reads what the server sends: acknowledgements; anything else is its complaint. */
static void receive(struct connection *c) {
  for (;;) {
    ssize_t got = recv(c->fd, c->line + c->filled, sizeof c->line - 1 - c->filled, 0);
    char *begin = c->line, *end;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
      fprintf(stderr, "log_load: the server hung up\n");
      exit(1);
    }
    c->filled += (size_t)got;
    c->line[c->filled] = 0;
    while ((end = strchr(begin, '\n'))) {
      unsigned long long sequence;
      if (sscanf(begin, "ack %llu", &sequence) != 1) {
        fprintf(stderr, "log_load: the server said: %.*s\n", (int)(end - begin), begin);
        exit(1);
      }
      c->acknowledged = sequence;
      begin = end + 1;
    }
    c->filled = strlen(begin);
    memmove(c->line, begin, c->filled + 1);
  }
}

/* @return whether the connection has something left that can go at once */
static bool send_some(struct connection *c) {
  const size_t at_once = 65536;
  size_t left = c->length - c->sent;
  ssize_t sent;
  if (c->blocked || left == 0) return false;
  sent = send(c->fd, c->bytes + c->sent, left < at_once ? left : at_once, MSG_NOSIGNAL);
  if (sent < 0 && errno != EAGAIN) die("send");
  if (sent > 0) c->sent += (size_t)sent;
  if (sent < 0) c->blocked = true;
  return !c->blocked && c->sent < c->length;
}

static void wait_for_events(int timeout_ms) {
  struct epoll_event events[256];
  int ready = epoll_wait(poller, events, 256, timeout_ms);
  for (int i = 0; i < ready; i++) {
    struct connection *c = events[i].data.ptr;
    if (events[i].events & EPOLLOUT) c->blocked = false;
    if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLRDHUP)) receive(c);
  }
}

/* --- the file
 * ------------------------------------------------------------------------------------------ */

static const char *path;
static int file = -1;
static off_t offset;

/* The next bytes of the log file; 0 when there are none (yet). */
static size_t follow(char *to, size_t limit) {
  ssize_t got;
  if (file < 0) file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  got = pread(file, to, limit, offset);
  if (got < 0) die("read the log file");
  offset += got;
  return (size_t)got;
}

static size_t lines_in(const char *bytes, size_t length) {
  size_t lines = 0;
  for (size_t i = 0; i < length; i++) lines += bytes[i] == '\n'; /* compiled to vector instructions */
  return lines;
}

static void begin_at_the_end(void) {
  struct stat status;
  offset = stat(path, &status) == 0 ? status.st_size : 0;
}

/* --- flood
 * ------------------------------------------------------------------------------------------ */

static void build(size_t count) {
  char *text = allocate(size);
  size_t each = count / (size_t)count_of_connections;
  for (int i = 0; i < count_of_connections; i++) {
    struct connection *c = &connections[i];
    c->bytes = allocate(each * (size + HEAD_LIMIT) < 1u << 20 ? 1u << 20 : each * (size + HEAD_LIMIT));
    for (size_t k = 0; k < each; k++) {
      message(text, (uint64_t)i * each + k);
      c->length += frame(c->bytes + c->length, text, ++c->sequence);
    }
  }
  free(text);
}

static bool all_acknowledged(void) {
  for (int i = 0; i < count_of_connections; i++)
    if (connections[i].acknowledged < connections[i].sequence) return false;
  return true;
}

static int flood(int port, size_t count) {
  static char bytes[1 << 20];
  size_t lines = 0;
  double begin, last_s, sent_s = 0, written_s = 0, acknowledged_s = wire == RECORDS ? 0 : -1, synced_s;

  count -= count % (size_t)count_of_connections;
  build(count);
  connect_all(port);
  begin_at_the_end();
  printf("ready\n");
  fflush(stdout);
  if (!fgets(bytes, sizeof bytes, stdin)) return 1;

  begin = last_s = now();
  while (!written_s || !acknowledged_s) {
    bool busy = false, left = false;
    size_t got;
    for (int i = 0; i < count_of_connections && !sent_s; i++) {
      busy |= send_some(&connections[i]);
      left |= connections[i].sent < connections[i].length;
    }
    if (!sent_s && !left) sent_s = now() - begin;
    wait_for_events(0);
    if (busy) continue;
    got = follow(bytes, sizeof bytes);
    lines += lines_in(bytes, got);
    if (got || !sent_s) last_s = now();
    if (!written_s && lines >= count) written_s = now() - begin;
    if (!acknowledged_s && all_acknowledged()) acknowledged_s = now() - begin;
    if (now() - begin > time_limit_s || now() - last_s > silence_limit_s) break;
    if (!got) {
      if (sent_s)
        usleep(200);
      else
        wait_for_events(1);
    }
  }
  synced_s = file >= 0 && written_s && fdatasync(file) == 0 ? now() - begin : 0;
  printf("count=%zu lines=%zu sent_s=%.6f written_s=%.6f synced_s=%.6f acknowledged_s=%.6f\n", count, lines, sent_s,
         written_s, synced_s, acknowledged_s);
  return written_s && acknowledged_s ? 0 : 1;
}

/* --- trickle
 * ------------------------------------------------------------------------------------------ */

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Takes the time of sending from the beginning of each message and notes how long ago that was. */
static size_t note_latencies(char *bytes, size_t *kept, double *latencies, size_t noted, size_t limit) {
  size_t got = follow(bytes + *kept, (1 << 20) - *kept), length = *kept + got;
  char *begin = bytes, *end;
  uint64_t time_ns = realtime_ns();
  while ((end = memchr(begin, '\n', length - (size_t)(begin - bytes)))) {
    if ((size_t)(end - begin) >= size && noted < limit)
      latencies[noted++] = ((double)time_ns - (double)strtoull(end - size, NULL, 10)) / 1e9;
    begin = end + 1;
  }
  *kept = length - (size_t)(begin - bytes);
  memmove(bytes, begin, *kept);
  return noted;
}

static int trickle(int port, double rate, double seconds) {
  static char bytes[1 << 20];
  size_t limit = (size_t)(rate * seconds * count_of_connections), noted = 0, sent = 0, kept = 0;
  double *latencies = allocate((limit + 1) * sizeof *latencies), begin, end;
  char *text = allocate(size + 1), *out = allocate(size + HEAD_LIMIT);

  connect_all(port);
  begin_at_the_end();
  printf("ready\n");
  fflush(stdout);
  if (!fgets(bytes, sizeof bytes, stdin)) return 1;

  begin = now();
  end = begin + seconds;
  while (noted < limit && now() < end + 15) {
    while (sent < limit && now() >= begin + (double)sent / (rate * count_of_connections)) {
      struct connection *c = &connections[sent % (size_t)count_of_connections];
      size_t length;
      memset(text, '.', size);
      text[sprintf(text, "%llu", (unsigned long long)realtime_ns())] = '.';
      length = frame(out, text, ++c->sequence);
      if (send(c->fd, out, length, MSG_NOSIGNAL) != (ssize_t)length) die("send");
      sent++;
    }
    wait_for_events(0);
    noted = note_latencies(bytes, &kept, latencies, noted, limit);
    usleep(500);
  }
  qsort(latencies, noted, sizeof *latencies, ascending);
  if (noted)
    printf("sent=%zu noted=%zu p50_s=%.6f p99_s=%.6f max_s=%.6f\n", sent, noted, latencies[noted / 2],
           latencies[noted * 99 / 100], latencies[noted - 1]);
  return noted == sent && noted ? 0 : 1;
}

/* --- verify
 * ------------------------------------------------------------------------------------------ */

static int verify(size_t count) {
  size_t each = count / (size_t)count_of_connections, strange = 0, twice = 0, disordered = 0, seen_count = 0;
  char *seen = calloc(count, 1), *expected = allocate(size), *line = NULL;
  int64_t *last = allocate((size_t)count_of_connections * sizeof *last);
  size_t room = 0;
  ssize_t length;
  FILE *input = fopen(path, "r");

  count = each * (size_t)count_of_connections;
  if (!input || fseeko(input, offset, SEEK_SET) < 0) die(path);
  for (int i = 0; i < count_of_connections; i++) last[i] = -1;
  while ((length = getline(&line, &room, input)) > 0) {
    uint64_t number;
    char digits[11] = "", *text = line + length - 1 - (ssize_t)size;
    if (length < (ssize_t)size + 1 || line[length - 1] != '\n') {
      strange++;
      continue;
    }
    memcpy(digits, text, 10);
    number = strtoull(digits, NULL, 10);
    message(expected, number);
    if (number >= count || memcmp(text, expected, size) != 0) {
      strange++;
      continue;
    }
    if (seen[number])
      twice++;
    else
      seen_count++;
    seen[number] = 1;
    if ((int64_t)number <= last[number / each]) disordered++;
    last[number / each] = (int64_t)number;
  }
  printf("missing=%zu strange=%zu twice=%zu disordered=%zu\n", count - seen_count, strange, twice, disordered);
  return 0;
}

int main(int argc, char **argv) {
  if (argc == 7 && strcmp(argv[1], "verify") == 0) {
    path = argv[2];
    offset = atoll(argv[3]);
    size = strtoul(argv[4], NULL, 10);
    count_of_connections = atoi(argv[6]);
    return verify(strtoul(argv[5], NULL, 10));
  }
  if (!((argc == 8 && strcmp(argv[1], "flood") == 0) || (argc == 9 && strcmp(argv[1], "trickle") == 0))) {
    fprintf(stderr, "usage: log_load flood PORT WIRE SIZE COUNT CONNECTIONS FILE | trickle PORT WIRE SIZE "
                    "RATE CONNECTIONS FILE SECONDS "
                    "| verify FILE OFFSET SIZE COUNT CONNECTIONS\n");
    return 2;
  }
  while (wire <= RFC5424_OCTET && strcmp(argv[3], wires[wire]) != 0) wire++;
  size = strtoul(argv[4], NULL, 10);
  count_of_connections = atoi(argv[6]);
  path = argv[7];
  if (wire > RFC5424_OCTET || size < 10 || size > 4096 || count_of_connections < 1) {
    fprintf(stderr, "log_load: wrong arguments\n");
    return 2;
  }
  connections = calloc((size_t)count_of_connections, sizeof *connections);
  if (!connections) die("memory");
  return argc == 8 ? flood(atoi(argv[2]), strtoul(argv[5], NULL, 10))
                   : trickle(atoi(argv[2]), atof(argv[5]), atof(argv[8]));
}
