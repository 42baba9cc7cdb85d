/* Makes the Ruby String of a whole message in the socket's buffer. Called by connection.c. */
#include "websocket/websocket.h"

#include <ruby/encoding.h>

/* Returns the message; sets `fault` to zero or the negative close code. */
static VALUE inflate_message(struct gyre_websocket *websocket, const char *bytes, rb_encoding *encoding, int *fault) {
  struct gyre_websocket_inflation inflation = {.left = websocket->limits.message_bytes,
                                               .text = encoding == rb_utf8_encoding()};
  VALUE message = rb_enc_str_new(NULL, 0, encoding);
  char *lent = gyre_lent_plain();
  *fault = -GYRE_WEBSOCKET_SERVER_ERROR;
  if (!lent || !gyre_websocket_inflate_begin(&inflation, &websocket->compression, bytes, websocket->input.held))
    return message;
  while ((*fault = gyre_websocket_inflate(&inflation, lent, GYRE_LENT_BYTES)) > 0) rb_str_cat(message, lent, *fault);
  return message;
}

VALUE gyre_websocket_message(struct gyre_websocket *websocket, int *fault) {
  const struct gyre_bytes *input = websocket->connection->transport.input;
  const char *bytes = input ? input->bytes + input->offset + websocket->input.start : "";
  bool text = websocket->input.opcode == GYRE_WEBSOCKET_TEXT;
  rb_encoding *encoding = text ? rb_utf8_encoding() : rb_ascii8bit_encoding();
  if (websocket->input.compressed) return inflate_message(websocket, bytes, encoding, fault);
  return rb_enc_str_new(bytes, websocket->input.held, encoding);
}
