/* Parses a WebSocket's received frames (RFC 6455, section 5) in their buffer. A message's payload
 * stays in the buffer in one piece, unmasked, and checked if it is text. Needs no other memory.
 * Called by connection.c, frames.c for clients, the fuzzer and a plain C test. No ruby.h.
 *
 *   0 ········ start ────────── start + held ········ next ──────────── length
 *     done            message                 heads        not looked at */
#pragma once

#include "websocket/frame.h"
#include "websocket/utf8.h"

struct gyre_websocket_input {
  uint32_t start, held, next;
  uint32_t message_bytes; /* maximum bytes of a message, before it is inflated */
  uint32_t frames;        /* frames of the current message so far */
  struct {
    uint64_t length, taken;
    uint8_t mask[4];
    bool begun, final;
  } frame; /* the current message's current frame */
  struct gyre_utf8 utf8;
  uint8_t opcode;    /* the current message's: TEXT or BINARY; 0: none */
  bool compressed;   /* the current message is compressed */
  bool may_compress; /* permessage-deflate was agreed on */
  bool client;       /* the peer is a server, which masks nothing */
};

enum gyre_websocket_event_kind {
  GYRE_WEBSOCKET_INCOMPLETE, /* all bytes are used, or more are needed */
  GYRE_WEBSOCKET_MESSAGE,    /* a whole message, kept until gyre_websocket_input_taken */
  GYRE_WEBSOCKET_CONTROL,    /* a ping or pong */
  GYRE_WEBSOCKET_CLOSED,     /* the peer's last frame, with its code or NO_CODE */
  GYRE_WEBSOCKET_BROKEN      /* the peer has broken the protocol or a limit: close with `code` */
};

struct gyre_websocket_event {
  enum gyre_websocket_event_kind kind;
  uint8_t opcode;
  bool compressed;
  uint16_t code;
  const char *payload; /* in the buffer; CLOSED: the reason; BROKEN: constant text */
  uint32_t length;
};

/* Parses more of the buffer. Not called after CLOSED or BROKEN. */
struct gyre_websocket_event gyre_websocket_input_next(struct gyre_websocket_input *input, char *bytes, uint32_t length);

/* Call after copying the message. Then gyre_websocket_input_release lets its bytes be removed. */
void gyre_websocket_input_taken(struct gyre_websocket_input *input);

/* Moves bytes that are not yet parsed to the end of an incomplete message, over heads and control
 * frames. Returns the new length. */
uint32_t gyre_websocket_input_close_gap(struct gyre_websocket_input *input, char *bytes, uint32_t length);

/* Returns the number of bytes to remove from the buffer's beginning. */
uint32_t gyre_websocket_input_release(struct gyre_websocket_input *input);
