/*
 * A process of bench/memcached, as memcached_child.rb is: libmemcached sets, gets and deletes small
 * values, one command after the other, a smaller pass to warm up and then the measured one, and the
 * times are printed as JSON. Arguments: PORT COUNT PID, where PID is memcached's, whose CPU time is
 * read. Without arguments: the library's version.
 */
#include <libmemcached/memcached.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum part { SET, GET, DELETE, PARTS };

static double seconds(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* User and system time of all threads: fields 14 and 15 of proc(5), behind the name. */
static double cpu_s_of(int pid) {
  char path[64], line[1024];
  unsigned long user, system;
  snprintf(path, sizeof(path), "/proc/%d/stat", pid);
  FILE *file = fopen(path, "r");
  const char *name_end = file && fgets(line, sizeof(line), file) ? strrchr(line, ')') : NULL;
  if (file) fclose(file);
  if (!name_end || sscanf(name_end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2) {
    fprintf(stderr, "%s cannot be read\n", path);
    exit(1);
  }
  return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static void check(memcached_st *client, memcached_return_t result, bool right, const char *command, const char *key) {
  if (result == MEMCACHED_SUCCESS && right) return;
  fprintf(stderr, "%s %s: %s\n", command, key, right ? memcached_strerror(client, result) : "another value");
  exit(1);
}

static void one(memcached_st *client, enum part part, long number) {
  char key[40], value[40];
  size_t key_length = (size_t)snprintf(key, sizeof(key), "bench:key:%ld", number), found_length;
  size_t length = (size_t)snprintf(value, sizeof(value), "value %ld", number);
  memcached_return_t result;
  uint32_t flags;
  if (part == SET) {
    result = memcached_set(client, key, key_length, value, length, 0, 0);
    check(client, result, true, "set", key);
  } else if (part == GET) {
    char *found = memcached_get(client, key, key_length, &found_length, &flags, &result);
    check(client, result, !found || (found_length == length && memcmp(found, value, length) == 0), "get", key);
    free(found);
  } else {
    check(client, memcached_delete(client, key, key_length, 0), true, "delete", key);
  }
}

static void pass(memcached_st *client, long count, double *times_s) {
  for (enum part part = SET; part < PARTS; part++) {
    double begin_s = seconds(CLOCK_MONOTONIC);
    for (long number = 0; number < count; number++) one(client, part, number);
    times_s[part] = seconds(CLOCK_MONOTONIC) - begin_s;
  }
}

int main(int argc, char **argv) {
  if (argc != 4) {
    puts(memcached_lib_version());
    return argc == 1 ? 0 : 1;
  }
  long count = atol(argv[2]);
  int pid = atoi(argv[3]);
  double times_s[PARTS];
  memcached_st *client = memcached_create(NULL);
  if (!client || memcached_server_add(client, "127.0.0.1", (in_port_t)atoi(argv[1])) != MEMCACHED_SUCCESS) return 1;
  pass(client, count / 10 > 100 ? count / 10 : 100, times_s);
  double server_begin_s = cpu_s_of(pid), begin_s = seconds(CLOCK_PROCESS_CPUTIME_ID);
  pass(client, count, times_s);
  printf("{\"set_s\":%.6f,\"get_s\":%.6f,\"delete_s\":%.6f,\"operations\":%ld,\"cpu_s\":%.6f,\"server_cpu_s\":%.2f}\n",
         times_s[SET], times_s[GET], times_s[DELETE], PARTS * count, seconds(CLOCK_PROCESS_CPUTIME_ID) - begin_s,
         cpu_s_of(pid) - server_begin_s);
  memcached_free(client);
  return 0;
}
