/*
 * Passes bytes to a WebSocket's input as a connection does, in pieces of one size, in memory of
 * exactly their size, and writes down the events. For the plain C test and the fuzzer.
 */
#ifndef GYRE_TEST_WEBSOCKET_EXERCISE_H
#define GYRE_TEST_WEBSOCKET_EXERCISE_H

#include "websocket/input.h"

#include <stdio.h>
#include <stdlib.h>

struct heard {
  char *text; /* a line for each event */
  size_t length, capacity;
  uint32_t most_held; /* the longest buffer between two pieces */
  bool ended;
};

static void note(struct heard *heard, const char *kind, unsigned code, const char *payload, uint32_t length) {
  size_t more = strlen(kind) + 32 + length;
  if (heard->length + more > heard->capacity) {
    heard->capacity = 2 * (heard->length + more);
    heard->text = realloc(heard->text, heard->capacity);
    if (!heard->text) abort();
  }
  heard->length += (size_t)sprintf(heard->text + heard->length, "%s %u %u ", kind, code, length);
  if (length) memcpy(heard->text + heard->length, payload, length);
  heard->length += length;
  heard->text[heard->length++] = '\n';
}

static void look(struct gyre_websocket_input *input, char **buffer, uint32_t *length, struct heard *heard) {
  while (!heard->ended) {
    struct gyre_websocket_event event = gyre_websocket_input_next(input, *buffer, *length);
    switch (event.kind) {
    case GYRE_WEBSOCKET_MESSAGE:
      note(heard, event.compressed ? "compressed" : "message", event.opcode, event.payload, event.length);
      gyre_websocket_input_taken(input);
      break;
    case GYRE_WEBSOCKET_CONTROL: note(heard, "control", event.opcode, event.payload, event.length); break;
    case GYRE_WEBSOCKET_CLOSED:
      note(heard, "closed", event.code, event.payload, event.length);
      heard->ended = true;
      break;
    case GYRE_WEBSOCKET_BROKEN:
      note(heard, "broken", event.code, "", 0);
      heard->ended = true;
      break;
    default: {
      *length = gyre_websocket_input_close_gap(input, *buffer, *length);
      uint32_t done = gyre_websocket_input_release(input);
      memmove(*buffer, *buffer + done, *length - done);
      *length -= done;
      if (*length > heard->most_held) heard->most_held = *length;
      return;
    }
    }
  }
}

/* The caller frees heard.text. */
static struct heard hear(const uint8_t *bytes, size_t length, size_t piece, uint32_t limit, bool may_compress) {
  struct gyre_websocket_input input = {.message_bytes = limit, .may_compress = may_compress};
  struct heard heard = {.text = calloc(1, 1), .capacity = 1};
  char *buffer = NULL;
  uint32_t held = 0;
  for (size_t at = 0; at < length && !heard.ended; at += piece) {
    size_t size = length - at < piece ? length - at : piece;
    char *larger = malloc(held + size);
    if (!larger) abort();
    if (held) memcpy(larger, buffer, held);
    memcpy(larger + held, bytes + at, size);
    free(buffer);
    buffer = larger;
    held += (uint32_t)size;
    look(&input, &buffer, &held, &heard);
  }
  free(buffer);
  return heard;
}

#endif
