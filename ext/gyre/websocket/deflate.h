/* Compression of a WebSocket's messages (permessage-deflate, RFC 7692) by zlib. If a socket keeps
 * no context, the thread lends it a deflater and an inflater for each message. Called by socket.c,
 * connection.c, the fuzzer and a plain C test. No ruby.h. */
#pragma once

#include "websocket/frame.h"
#include "websocket/utf8.h"

/* A socket's compression in both directions. Window bits are 0 if no compression was negotiated. */
struct gyre_websocket_compression {
  struct z_stream_s *deflater, *inflater; /* kept for context takeover, from their first message; else NULL */
  uint8_t sent_bits, received_bits;
  bool sent_keeps, received_keeps; /* context takeover */
};

/* True if the message is long enough to compress. JSON of 160 bytes shrinks to 70 %, of 256 bytes
 * to 53 %. With a context, 80 bytes shrink to 26 %. */
static inline bool gyre_websocket_deflates(const struct gyre_websocket_compression *compression, size_t length) {
  return compression->sent_bits && length <= UINT32_MAX && length >= (compression->sent_keeps ? 64 : 256);
}

/* Compresses a message into memory of the same length. Returns the compressed length, or 0 if it is
 * not shorter. */
size_t gyre_websocket_deflate(struct gyre_websocket_compression *compression, const char *bytes, size_t length,
                              char *compressed);

/* Drops the deflater. Needed if the peer got a compressed message from another deflater. */
void gyre_websocket_deflate_forget(struct gyre_websocket_compression *compression);
void gyre_websocket_deflate_free(struct gyre_websocket_compression *compression);

/* A received message that is being decompressed. */
struct gyre_websocket_inflation {
  struct z_stream_s *stream;
  struct gyre_utf8 utf8;
  uint32_t left;         /* bytes that the message may still have */
  bool text, tail, ends; /* a text; the message's unsent end was added; a block ends here */
};

/* Begins a message, whose bytes must stay until its end. Returns false if memory runs out. */
bool gyre_websocket_inflate_begin(struct gyre_websocket_inflation *inflation,
                                  struct gyre_websocket_compression *compression, const char *bytes, uint32_t length);
/* Inflates the next part. Returns its length, 0 at the message's end, or a negative close code. */
int gyre_websocket_inflate(struct gyre_websocket_inflation *inflation, char *bytes, uint32_t room);
