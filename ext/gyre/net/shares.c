/* Counters shared by processes (shares.h). */
#include "net/shares.h"

#include <stdatomic.h>
#include <sys/mman.h>

#ifndef MAP_ANONYMOUS
#define MAP_ANONYMOUS MAP_ANON
#endif

struct gyre_share {
  atomic_int process; /* process id; 0: free */
  atomic_uint open;   /* connections */
  atomic_uint signs;  /* how often the process looked at its sockets */
};

static struct {
  atomic_uint used; /* highest place ever taken, plus one */
  struct gyre_share places[GYRE_SHARES_COUNT];
} * map;

static struct {
  int process; /* id of the process with this place; a forked child has another id */
  unsigned number;
} place;

int gyre_shares_map(void) {
  if (map) return 0;
#ifdef GYRE_HAVE_FORK
  void *memory = mmap(NULL, sizeof(*map), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return -errno;
  map = memory; /* all zero */
  return 0;
#else
  map = calloc(1, sizeof(*map));
  return map ? 0 : -ENOMEM;
#endif
}

/* True if this process has a place that no other process has taken over. */
static bool is_own(struct gyre_shares *shares) {
  return shares->own && atomic_load_explicit(&shares->own->process, memory_order_relaxed) == shares->process;
}

void gyre_shares_place(unsigned number) {
  place.process = (int)getpid();
  place.number = number;
}

void gyre_shares_join(struct gyre_shares *shares) {
  if (!map || place.process != (int)getpid() || place.number >= GYRE_SHARES_COUNT) return;
  shares->own = &map->places[place.number];
  shares->process = place.process;
  atomic_store(&shares->own->open, 0);
  atomic_store(&shares->own->process, shares->process);
  unsigned used = atomic_load(&map->used);
  while (used <= place.number && !atomic_compare_exchange_weak(&map->used, &used, place.number + 1)) continue;
}

void gyre_shares_leave(struct gyre_shares *shares) {
  int process = shares->process;
  if (shares->own) atomic_compare_exchange_strong(&shares->own->process, &process, 0);
  shares->own = NULL;
}

void gyre_shares_tell(struct gyre_shares *shares, uint32_t open) {
  if (is_own(shares)) atomic_store_explicit(&shares->own->open, open, memory_order_relaxed);
}

void gyre_shares_sign(struct gyre_shares *shares) {
  if (is_own(shares)) atomic_fetch_add_explicit(&shares->own->signs, 1, memory_order_relaxed);
}

/* True for 0 connections of `other` and at least 2 here; or 1 and 4, or 2 and 6. */
static bool has_far_fewer(struct gyre_share *other, uint32_t open) {
  return atomic_load_explicit(&other->process, memory_order_relaxed) != 0 &&
         open / 2 > atomic_load_explicit(&other->open, memory_order_relaxed);
}

bool gyre_shares_others_first(struct gyre_shares *shares, uint32_t open) {
  if (!shares->own) return false;
  bool found = false;
  unsigned used = atomic_load_explicit(&map->used, memory_order_relaxed);
  for (unsigned i = 0; i < used; i++) {
    struct gyre_share *other = &map->places[i];
    if (other == shares->own || !has_far_fewer(other, open)) continue;
    unsigned signs = atomic_load_explicit(&other->signs, memory_order_relaxed);
    if (shares->others[i].state == GYRE_SHARE_GIVEN_UP && shares->others[i].signs == signs) continue;
    shares->others[i].state = GYRE_SHARE_AWAITED;
    shares->others[i].signs = signs;
    found = true;
  }
  return found;
}

void gyre_shares_waited(struct gyre_shares *shares) {
  if (!shares->own) return;
  for (unsigned i = 0; i < GYRE_SHARES_COUNT; i++) {
    if (shares->others[i].state != GYRE_SHARE_AWAITED) continue;
    unsigned signs = atomic_load_explicit(&map->places[i].signs, memory_order_relaxed);
    shares->others[i].state = signs == shares->others[i].signs ? GYRE_SHARE_GIVEN_UP : GYRE_SHARE_KNOWN;
  }
}
