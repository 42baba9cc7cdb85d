/*
 * See memcached_exercise.h. Each way of arriving is a run: `first` bytes at once, then `step` more
 * each time. As a connection does, a run asks again only when as many bytes have come as the parser
 * wanted.
 */
#define _GNU_SOURCE
#include "memcached_exercise.h"
#include "arriving.h"
#include "memcached/memcached_wire.h"

#include <inttypes.h>
#include <stdbool.h>

#define EVERY_SPLIT_MAX 600 /* of longer input only some splits are tried */

static bool within(const char *part, size_t part_length, const char *bytes, size_t length) {
  if (part == NULL) return part_length == 0;
  return part >= bytes && part_length <= length && (size_t)(part - bytes) <= length - part_length;
}

static void append_reply(struct text *text, const struct gyre_memcached_reply *reply, const char *bytes,
                         size_t length) {
  const bool has_data = reply->code == GYRE_MEMCACHED_VA;
  if (!within(reply->text, reply->text_length, bytes, length) ||
      (has_data && !within(reply->data, reply->data_length, bytes, length))) {
    appendf(text, "out-of-bounds ");
    return;
  }
  appendf(text, "%u:%u,%u,%u:%d:%" PRIu32 ":%" PRIu64 ":%" PRId64 ":%" PRId64 ":", reply->code, reply->won,
          reply->stale, reply->lost, reply->hit, reply->flags, reply->cas, reply->ttl_s, reply->idle_s);
  append_hex(text, reply->text, reply->text_length);
  appendf(text, ":");
  if (has_data) append_hex(text, reply->data, reply->data_length);
  appendf(text, " ");
}

/* What one way of arriving gives. */
static struct text run(struct places *places, const char *bytes, size_t length, size_t first, size_t step) {
  struct text text = {NULL, 0, 0};
  size_t start = 0, come = first;
  append(&text, "", 0);
  for (;;) {
    struct gyre_memcached_reply reply;
    size_t wanted = 0;
    const char *at = place(places, bytes + start, come - start);
    ssize_t result = come == start ? 0 : gyre_memcached_parse(&reply, at, come - start, &wanted);
    if (result > (ssize_t)(come - start)) {
      appendf(&text, "longer-than-input ");
      return text;
    }
    if (result < 0) {
      appendf(&text, "%s", reply.text_length > 0 && strlen(reply.text) == reply.text_length ? "wrong" : "no-reason");
      return text;
    }
    if (result > 0) {
      append_reply(&text, &reply, at, (size_t)result);
      start += (size_t)result;
      continue;
    }
    if (come > start && wanted <= come - start) appendf(&text, "wants-what-is-there ");
    if (come == length) break;
    do come = length - come > step ? come + step : length;
    while (come < length && come - start < wanted);
  }
  appendf(&text, "%s", start == length ? "whole" : "more");
  return text;
}

/* False, and the difference stands in the whole's text, where a way gives something else. */
static bool agrees(struct text *whole, struct text other, const char *way, size_t at) {
  const bool same = strcmp(whole->bytes, other.bytes) == 0;
  if (!same) {
    struct text both = {NULL, 0, 0};
    appendf(&both, "inconsistent %s %zu [", way, at);
    append(&both, whole->bytes, whole->length);
    appendf(&both, "] [");
    append(&both, other.bytes, other.length);
    appendf(&both, "]");
    free(whole->bytes);
    *whole = both;
  }
  free(other.bytes);
  return same;
}

char *exercise_replies(const char *bytes, size_t length) {
  struct places places = {{guarded_open(length), guarded_open(length)}, 0, 0};
  const size_t stride = length <= EVERY_SPLIT_MAX ? 1 : length / 32;
  struct text whole = run(&places, bytes, length, length, length + 1);
  bool same = agrees(&whole, run(&places, bytes, length, 0, 1), "bytes", 0);
  for (size_t at = 0; same && at <= length; at += stride)
    same = agrees(&whole, run(&places, bytes, length, at, length + 1), "split", at);
  guarded_close(&places.memory[0]);
  guarded_close(&places.memory[1]);
  return whole.bytes;
}

static void append_command(struct text *text, char *room, const char *end, size_t room_length) {
  if (end < room || (size_t)(end - room) > room_length) appendf(text, "inconsistent");
  append_hex(text, room, (size_t)(end - room));
}

char *exercise_key(const char *key, size_t length) {
  struct places places = {{guarded_open(length), guarded_open(length)}, 0, 0};
  const char *const at = place(&places, key, length);
  const enum gyre_memcached_key form = gyre_memcached_key_form(at, length);
  struct text text = {NULL, 0, 0};
  if (form == GYRE_MEMCACHED_REFUSED) {
    appendf(&text, "refused");
  } else {
    const size_t flags_length = 4;
    const size_t key_room = form == GYRE_MEMCACHED_BASE64 ? gyre_memcached_key_room(length) : length;
    const size_t room_length = key_room + GYRE_MEMCACHED_COMMAND_BYTES + flags_length;
    /* Of exactly its size, so that a sanitizer finds a byte too many. */
    char *const room = malloc(room_length);
    if (room == NULL) abort();
    append_command(&text, room, gyre_memcached_put_command(room, "md", at, length, form, " q k", flags_length),
                   room_length);
    appendf(&text, " ");
    append_command(&text, room,
                   gyre_memcached_put_set(room, at, length, form, GYRE_MEMCACHED_VALUE_BYTES, UINT32_MAX, INT64_MAX,
                                          " q k", flags_length),
                   room_length);
    free(room);
  }
  guarded_close(&places.memory[0]);
  guarded_close(&places.memory[1]);
  return text.bytes;
}
