/* Releases memory of idle fibers' stacks, for workers.c. Ruby does not show where stacks end, but
 * each one is a mapping of /proc/self/maps (proc(5)). If that file is missing, gyre_stacks_discard
 * does nothing. The virtual machine's stack is in the same mapping (cont.c, Ruby 3.1 to 4.0):
 *
 *   start                  address   start of the machine stack                              end
 *   | unused                  | frames |  values >             unused         < control frames |
 *   | machine stack, grows downwards   |  stack of the virtual machine, from both of its ends  | */
#include "fiber/stacks.h"

#ifdef GYRE_HAVE_MADVISE

#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>

/* Bytes kept below the address, for Ruby's frames of a switch (370 bytes on optimized x86-64). */
#ifdef GYRE_HAVE_OPTIMIZED_RUBY
#define KEPT_BYTES 2048
#else
#define KEPT_BYTES 4096
#endif
#define KEPT_VM_BYTES 4096 /* kept at each end of the VM's stack, for some 60 control frames */
#define USED_BYTES 131072  /* bytes below the present frame that earlier jobs may have used */
#define RED_ZONE_BYTES 256 /* bytes below the frame that a leaf function may use */
#define FRAMES_BYTES 16384 /* maximum bytes of a fiber's first frames, above the address */

static int ascending(const void *left, const void *right) {
  uintptr_t a = *(const uintptr_t *)left, b = *(const uintptr_t *)right;
  return (a > b) - (a < b);
}

/* Sets the next mapping's bounds; false at the end of the file. *end is 0 if the mapping is not
 * readable and writable. */
static bool next_mapping(FILE *maps, uintptr_t *start, uintptr_t *end) {
  char line[128], access[5];
  if (!fgets(line, sizeof(line), maps)) return false;
  if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", start, end, access) != 3 || access[0] != 'r' || access[1] != 'w')
    *end = 0;
  while (!strchr(line, '\n') && fgets(line, sizeof(line), maps)) continue; /* a long path */
  return true;
}

/* Releases whole pages only. */
static void discard(uintptr_t from, uintptr_t to, uintptr_t page) {
  from = (from + page - 1) & ~(page - 1);
  to &= ~(page - 1);
  if (from < to) (void)madvise((void *)from, to - from, MADV_DONTNEED);
}

void gyre_stacks_discard(uintptr_t *addresses, size_t count, size_t machine_bytes, size_t vm_bytes) {
  FILE *maps = fopen("/proc/self/maps", "re");
  if (!maps) return;
  qsort(addresses, count, sizeof(*addresses), ascending);

  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start, end;
  size_t next = 0;
  while (next < count && next_mapping(maps, &start, &end)) {
    if (!end) continue;
    while (next < count && addresses[next] < start) next++;
    for (; next < count && addresses[next] < end; next++) {
      uintptr_t address = addresses[next];
      if (end - start > machine_bytes + vm_bytes + page || end - start <= vm_bytes) continue;
      if (address - start >= KEPT_BYTES) discard(start, address - KEPT_BYTES, page);
      uintptr_t vm_start = end - vm_bytes;
      if (address < vm_start && vm_start - address <= FRAMES_BYTES)
        discard(vm_start + KEPT_VM_BYTES, end - KEPT_VM_BYTES, page);
    }
  }
  (void)fclose(maps);
}

void gyre_stack_discard(uintptr_t address, size_t machine_bytes) {
  uintptr_t unused = (uintptr_t)__builtin_frame_address(0) - RED_ZONE_BYTES;
  uintptr_t least = address - machine_bytes + FRAMES_BYTES;
  if (machine_bytes <= FRAMES_BYTES || unused <= least) return;
  discard(unused - least > USED_BYTES ? unused - USED_BYTES : least, unused, (uintptr_t)sysconf(_SC_PAGESIZE));
}

#else

void gyre_stack_discard(uintptr_t address, size_t machine_bytes) {}

void gyre_stacks_discard(uintptr_t *addresses, size_t count, size_t machine_bytes, size_t vm_bytes) {}

#endif
