/*
 * Memory of suspended fibers' stacks. Ruby keeps the pages of a stack that was deep once: 3.1 for
 * good, 3.4 until memory is short (MADV_FREE), and counts neither. The pool of fibers (workers.c)
 * calls this for fibers that have had nothing to do for a while. What lies below a suspended
 * fiber's stack pointer is in no use, so it can go.
 *
 * Ruby does not show where a stack ends. The kernel does: a guard page stands below each, so that a
 * stack is a mapping of its own in /proc/self/maps (proc(5)). Where that file is not there, nothing
 * happens.
 */
#include "feature.h"

#include "fiber/stacks.h"

#include <stdbool.h>

#ifdef GYRE_HAVE_MADVISE

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define KEPT_BYTES 8192 /* below the address: the frames between there and where the fiber was left */

static int ascending(const void *left, const void *right) {
  uintptr_t a = *(const uintptr_t *)left, b = *(const uintptr_t *)right;
  return (a > b) - (a < b);
}

/* The next mapping's bounds; false at the end. One that cannot be read and written has an end of
 * 0. */
static bool next_mapping(FILE *maps, uintptr_t *start, uintptr_t *end) {
  char line[128], access[5];
  if (!fgets(line, sizeof(line), maps)) return false;
  if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", start, end, access) != 3 || access[0] != 'r' || access[1] != 'w')
    *end = 0;
  while (!strchr(line, '\n') && fgets(line, sizeof(line), maps)) continue; /* a long path */
  return true;
}

void gyre_stacks_discard(uintptr_t *addresses, size_t count, size_t stack_bytes) {
  FILE *maps = fopen("/proc/self/maps", "re");
  if (!maps) return;
  qsort(addresses, count, sizeof(*addresses), ascending);

  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start, end;
  size_t next = 0;
  while (next < count && next_mapping(maps, &start, &end)) {
    if (!end) continue;
    while (next < count && addresses[next] < start) next++;
    for (; next < count && addresses[next] < end; next++) {
      if (end - start > stack_bytes + page || addresses[next] - start < KEPT_BYTES) continue;
      uintptr_t to = (addresses[next] - KEPT_BYTES) & ~(page - 1);
      if (to > start) (void)madvise((void *)start, to - start, MADV_DONTNEED);
    }
  }
  (void)fclose(maps);
}

#else

void gyre_stacks_discard(uintptr_t *addresses, size_t count, size_t stack_bytes) {
  (void)addresses;
  (void)count;
  (void)stack_bytes;
}

#endif
