/*
 * getaddrinfo that takes half a second longer: LD_PRELOAD of what `bench/blocking` measures, for
 * name servers are as slow as they are. Never part of Gyre.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <string.h>
#include <time.h>

typedef int (*lookup)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
  lookup real = (lookup)dlsym(RTLD_NEXT, "getaddrinfo");
  if (host && strcmp(host, "localhost") == 0) {
    struct timespec half = {.tv_nsec = 500 * 1000 * 1000};
    nanosleep(&half, NULL);
  }
  return real(host, service, hints, found);
}
