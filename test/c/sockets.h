/*
 * What the plain C tests of the backends do with descriptors, on POSIX systems and on Windows:
 * pipes, pairs, connections, bytes, ends. On Windows a descriptor is a number of the C library that
 * stands for a socket, as in Ruby, and pipes and pairs are connections.
 */
#pragma once

#include "check.h"

#include <stdbool.h>
#ifdef _WIN32
#include <winsock2.h>
#include <ws2tcpip.h>

#include <fcntl.h>
#include <io.h>

#define SHUT_WR SD_SEND
#define socket_of(fd) ((SOCKET)_get_osfhandle(fd))

static void silent(const wchar_t *expression, const wchar_t *function, const wchar_t *file, unsigned line,
                   uintptr_t unused) {}

/* A number that is not open is an error, not the end of the program; Ruby asks for the same. */
static inline void begin_sockets(void) {
  WSADATA data;
  _set_invalid_parameter_handler(silent);
  CHECK(WSAStartup(MAKEWORD(2, 2), &data) == 0);
}

static inline int number_of(SOCKET socket) { return _open_osfhandle((intptr_t)socket, 0); }
static inline int read_from(int fd, char *bytes, int size) { return recv(socket_of(fd), bytes, size, 0); }
static inline int write_to(int fd, const char *bytes, int size) { return send(socket_of(fd), bytes, size, 0); }

/* Two steps, as in Ruby. */
static inline void close_number(int fd) {
  closesocket(socket_of(fd));
  _close(fd);
}

/* As dup2(2). */
static inline bool give_number(int from, int number) {
  close_number(number);
  return _dup2(from, number) == 0;
}

static inline void no_waiting(int fd) {
  u_long yes = 1;
  CHECK(ioctlsocket(socket_of(fd), FIONBIO, &yes) == 0);
}
#else
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#define socket_of(fd) (fd)
#define number_of(socket) (socket)
#define closesocket close
#define close_number close

typedef int SOCKET;

static inline void begin_sockets(void) {}
static inline int read_from(int fd, char *bytes, int size) { return (int)read(fd, bytes, (size_t)size); }
static inline int write_to(int fd, const char *bytes, int size) { return (int)write(fd, bytes, (size_t)size); }
static inline bool give_number(int from, int number) { return dup2(from, number) == number; }
static inline void no_waiting(int fd) { CHECK(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0); }
#endif

/* A connection over the loopback, for what local sockets do not have. */
static inline void make_connection(int ends[2]) {
  SOCKET listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof(address);
  CHECK(bind(listener, (struct sockaddr *)&address, length) == 0 && listen(listener, 1) == 0);
  CHECK(getsockname(listener, (struct sockaddr *)&address, &length) == 0);
  CHECK(connect(client, (struct sockaddr *)&address, length) == 0);
  ends[0] = number_of(accept(listener, NULL, NULL));
  ends[1] = number_of(client);
  CHECK(ends[0] >= 0 && ends[1] >= 0);
  closesocket(listener);
}

/* [0] is read, [1] written. */
#ifdef _WIN32
static inline void make_pipe(int ends[2]) { make_connection(ends); }
static inline void make_pair(int ends[2]) { make_connection(ends); }
#else
static inline void make_pipe(int ends[2]) { CHECK(pipe(ends) == 0); }
static inline void make_pair(int ends[2]) { CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0); }
#endif

static inline void close_both(int ends[2]) {
  close_number(ends[0]);
  close_number(ends[1]);
}

static inline void put(int fd) { CHECK(write_to(fd, "x", 1) == 1); }

static inline void take(int fd) {
  char bytes[65536];
  CHECK(read_from(fd, bytes, sizeof(bytes)) > 0);
}

/* Takes what is there. */
static inline void empty(int fd) {
  char bytes[65536];
  no_waiting(fd);
  while (read_from(fd, bytes, sizeof(bytes)) > 0) continue;
}

static inline void fill(int fd) {
  static const char bytes[65536];
  no_waiting(fd);
  while (write_to(fd, bytes, sizeof(bytes)) > 0) continue;
  while (write_to(fd, bytes, 1) > 0) continue;
}

static inline void end_writing(int fd) { CHECK(shutdown(socket_of(fd), SHUT_WR) == 0); }

static inline void reset(int fd) {
  struct linger at_once = {1, 0};
  CHECK(setsockopt(socket_of(fd), SOL_SOCKET, SO_LINGER, (const void *)&at_once, sizeof(at_once)) == 0);
  close_number(fd);
}
