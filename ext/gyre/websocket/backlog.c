/* Implements backlog.h. */
#include "websocket/backlog.h"

#define BLOCK_BYTES ((16 * 1024) - sizeof(struct gyre_websocket_block))
#define FIRST_SLICES 4

/* Publishers may go on if nothing is unsent. */
static void count(const struct gyre_websocket_store *store, const struct gyre_websocket_block *block, int sign) {
  int64_t bytes = sign * (int64_t)(sizeof(*block) + block->capacity);
  *store->bytes += (uint64_t)bytes;
  gyre_http_budget_add(store->budget, bytes);
  if (*store->bytes == 0 && store->budget->relieved) store->budget->relieved(store->budget);
}

/* Frees the block if no slice uses it. */
static void release(const struct gyre_websocket_store *store, struct gyre_websocket_block *block) {
  if (block->slices > 0) return;
  if (*store->open == block) *store->open = NULL;
  count(store, block, -1);
  free(block);
}

static bool equals(const char *bytes, const struct iovec *pieces, int piece_count) {
  for (int i = 0; i < piece_count; bytes += pieces[i++].iov_len) {
    if (pieces[i].iov_len && memcmp(bytes, pieces[i].iov_base, pieces[i].iov_len) != 0) return false;
  }
  return true;
}

/* Finds the frame among those that were added last. Comparing costs less than a copy. */
static bool find(struct gyre_websocket_block *block, const struct iovec *pieces, int piece_count, size_t length,
                 struct gyre_websocket_slice *slice) {
  for (int i = 0; i < GYRE_WEBSOCKET_LATEST; i++) {
    *slice = (struct gyre_websocket_slice){block, block->latest[i].from, block->latest[i].to};
    if (slice->to - slice->from == length && equals(block->bytes + slice->from, pieces, piece_count)) return true;
  }
  return false;
}

static struct gyre_websocket_block *new_block(const struct gyre_websocket_store *store, size_t length) {
  size_t capacity = length < BLOCK_BYTES ? BLOCK_BYTES : length;
  struct gyre_websocket_block *block = capacity > UINT32_MAX / 2 ? NULL : malloc(sizeof(*block) + capacity);
  if (!block) return NULL;
  memset(block, 0, sizeof(*block));
  block->capacity = (uint32_t)capacity;
  count(store, block, 1);
  if (*store->open) release(store, *store->open);
  return *store->open = block;
}

/* The slice is valid until a backlog is consumed. Returns false if memory is short. */
static bool store_frame(const struct gyre_websocket_store *store, const struct iovec *pieces, int piece_count,
                        struct gyre_websocket_slice *slice) {
  struct gyre_websocket_block *block = *store->open;
  size_t length = 0;
  for (int i = 0; i < piece_count; i++) length += pieces[i].iov_len;
  if (block && find(block, pieces, piece_count, length, slice)) return true;
  if (!block || block->capacity - block->length < length) block = new_block(store, length);
  if (!block) return false;
  memmove(block->latest + 1, block->latest, sizeof(block->latest) - sizeof(block->latest[0]));
  block->latest[0].from = block->length;
  for (int i = 0; i < piece_count; i++) {
    if (pieces[i].iov_len) memcpy(block->bytes + block->length, pieces[i].iov_base, pieces[i].iov_len);
    block->length += (uint32_t)pieces[i].iov_len;
  }
  block->latest[0].to = block->length;
  *slice = (struct gyre_websocket_slice){block, block->latest[0].from, block->length};
  return true;
}

static bool make_room(struct gyre_websocket_backlog *backlog) {
  size_t size = sizeof(*backlog->slices), used = backlog->end - backlog->first;
  if (backlog->end < backlog->capacity) return true;
  if (backlog->first < backlog->capacity / 2 || backlog->capacity == 0) {
    size_t capacity = backlog->capacity ? backlog->capacity * (size_t)2 : FIRST_SLICES;
    struct gyre_websocket_slice *slices = capacity > UINT32_MAX ? NULL : realloc(backlog->slices, capacity * size);
    if (!slices) return false;
    backlog->slices = slices;
    backlog->capacity = (uint32_t)capacity;
  }
  memmove(backlog->slices, backlog->slices + backlog->first, used * size);
  backlog->first = 0;
  backlog->end = (uint32_t)used;
  return true;
}

/* Appends a slice without its first `skipped` bytes. Returns false if memory is short. */
static bool add(struct gyre_websocket_backlog *backlog, struct gyre_websocket_slice slice, size_t skipped) {
  struct gyre_websocket_slice *last = backlog->end > backlog->first ? &backlog->slices[backlog->end - 1] : NULL;
  slice.from += (uint32_t)skipped;
  if (slice.from == slice.to) return true;
  if (last && last->block == slice.block && last->to == slice.from) {
    last->to = slice.to;
  } else {
    if (!make_room(backlog)) return false;
    backlog->slices[backlog->end++] = slice;
    slice.block->slices++;
  }
  backlog->bytes += slice.to - slice.from;
  return true;
}

bool gyre_websocket_backlog_put(struct gyre_websocket_backlog *backlog, const struct gyre_websocket_store *store,
                                struct iovec pieces[2], size_t sent, bool shared) {
  struct gyre_websocket_slice slice;
  for (int i = 0; i < 2 && !shared; i++) {
    size_t skipped = sent < pieces[i].iov_len ? sent : pieces[i].iov_len;
    pieces[i] = (struct iovec){(char *)pieces[i].iov_base + skipped, pieces[i].iov_len - skipped};
    sent -= skipped;
  }
  return store_frame(store, pieces, 2, &slice) && add(backlog, slice, sent);
}

int gyre_websocket_backlog_pieces(const struct gyre_websocket_backlog *backlog, struct iovec *pieces, int most) {
  int found = 0;
  for (uint32_t i = backlog->first; i < backlog->end && found < most; i++) {
    const struct gyre_websocket_slice *slice = &backlog->slices[i];
    pieces[found++] = (struct iovec){slice->block->bytes + slice->from, slice->to - slice->from};
  }
  return found;
}

void gyre_websocket_backlog_consume(struct gyre_websocket_backlog *backlog, const struct gyre_websocket_store *store,
                                    size_t bytes) {
  backlog->bytes -= bytes;
  while (bytes > 0) {
    struct gyre_websocket_slice *slice = &backlog->slices[backlog->first];
    size_t held = slice->to - slice->from;
    if (bytes < held) {
      slice->from += (uint32_t)bytes;
      return;
    }
    bytes -= held;
    backlog->first++;
    slice->block->slices--;
    release(store, slice->block);
  }
  if (backlog->first < backlog->end) return;
  free(backlog->slices);
  *backlog = (struct gyre_websocket_backlog){0};
}
