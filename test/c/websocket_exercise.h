/*
 * Passes bytes to a WebSocket's input as a connection does, in pieces of one size, in memory of
 * exactly their size, and writes down the events. For the plain C test and the fuzzer.
 */
#pragma once

#include "websocket/deflate.h"
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

enum compressing { PLAIN, ALONE, IN_CONTEXT };

/* In pieces, each in memory of exactly its size. */
static void note_inflated(const struct gyre_websocket_input *input, struct gyre_websocket_compression *compression,
                          const struct gyre_websocket_event *event, struct heard *heard) {
  struct gyre_websocket_inflation inflation = {.left = input->message_bytes,
                                               .text = event->opcode == GYRE_WEBSOCKET_TEXT};
  char *message = malloc(input->message_bytes + 1);
  uint32_t size = 0;
  int count = -1;
  if (!message) abort();
  if (gyre_websocket_inflate_begin(&inflation, compression, event->payload, event->length)) {
    for (uint32_t room = 1;; room = 2 * room + 1) {
      char *piece = malloc(room);
      if (!piece) abort();
      count = gyre_websocket_inflate(&inflation, piece, room);
      if (count > 0) memcpy(message + size, piece, (size_t)count);
      free(piece);
      if (count <= 0) break;
      size += (uint32_t)count;
    }
  }
  note(heard, count ? "broken" : "inflated", count ? (unsigned)-count : event->opcode, message, count ? 0 : size);
  heard->ended = count;
  free(message);
}

static void look(struct gyre_websocket_input *input, struct gyre_websocket_compression *compression, char **buffer,
                 uint32_t *length, struct heard *heard) {
  while (!heard->ended) {
    struct gyre_websocket_event event = gyre_websocket_input_next(input, *buffer, *length);
    switch (event.kind) {
    case GYRE_WEBSOCKET_MESSAGE:
      if (event.compressed) {
        note_inflated(input, compression, &event, heard);
      } else {
        note(heard, "message", event.opcode, event.payload, event.length);
      }
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
static struct heard hear(const uint8_t *bytes, size_t length, size_t piece, uint32_t limit,
                         enum compressing compressing) {
  struct gyre_websocket_input input = {.message_bytes = limit, .may_compress = compressing != PLAIN};
  struct gyre_websocket_compression compression = {.received_bits = 15, .received_keeps = compressing == IN_CONTEXT};
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
    look(&input, &compression, &buffer, &held, &heard);
  }
  gyre_websocket_deflate_free(&compression);
  free(buffer);
  return heard;
}
