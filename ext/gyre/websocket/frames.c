/* Gyre::WebSocket::Frames: parses and makes the frames of lib/gyre/websocket/client.rb. Uses no
 * socket. */
#include "websocket/websocket.h"

#include <ruby/encoding.h>

struct frames {
  struct gyre_bytes *bytes;
  struct gyre_websocket_input input;
};

static void frames_free(void *opaque) {
  struct frames *frames = opaque;
  gyre_bytes_free(&frames->bytes);
  xfree(frames);
}

static size_t frames_size(const void *opaque) {
  const struct frames *frames = opaque;
  return sizeof(*frames) + (frames->bytes ? frames->bytes->capacity : 0);
}

GYRE_TYPE(frames_type, "Gyre::WebSocket::Frames", NULL, frames_free, frames_size, RUBY_TYPED_FREE_IMMEDIATELY);

static VALUE frames_allocate(VALUE class) {
  struct frames *frames;
  VALUE self = TypedData_Make_Struct(class, struct frames, &frames_type, frames);
  frames->input.client = true;
  return self;
}

/* Takes the maximum bytes of a message. */
static VALUE frames_initialize(VALUE self, VALUE limit) {
  struct frames *frames = rb_check_typeddata(self, &frames_type);
  frames->input.message_bytes = NUM2UINT(limit);
  return self;
}

/* Appends received bytes. */
static VALUE frames_append(VALUE self, VALUE bytes) {
  struct frames *frames = rb_check_typeddata(self, &frames_type);
  StringValue(bytes);
  if (gyre_bytes_append(&frames->bytes, RSTRING_PTR(bytes), (size_t)RSTRING_LEN(bytes)) < 0) rb_memerror();
  return self;
}

static VALUE named(const char *kind, VALUE payload, unsigned code) {
  return rb_ary_new_from_args(3, ID2SYM(rb_intern(kind)), payload, code ? UINT2NUM(code) : Qnil);
}

static VALUE event_of(const struct gyre_websocket_event *event) {
  VALUE text = rb_utf8_str_new(event->payload ? event->payload : "", event->length);
  switch (event->kind) {
  case GYRE_WEBSOCKET_MESSAGE:
    return event->opcode == GYRE_WEBSOCKET_TEXT ? named("message", text, 0)
                                                : named("message", rb_enc_associate(text, rb_ascii8bit_encoding()), 0);
  case GYRE_WEBSOCKET_CONTROL: return named(event->opcode == GYRE_WEBSOCKET_PING ? "ping" : "pong", text, 0);
  case GYRE_WEBSOCKET_CLOSED: return named("close", text, event->code);
  default: return named("broken", text, event->code);
  }
}

/* Returns [kind, payload, code]: a :message, :ping, :pong, :close or :broken. Only the last two
 * have a code. Returns nil if more bytes are needed. Not called after :close or :broken. */
static VALUE frames_next(VALUE self) {
  struct frames *frames = rb_check_typeddata(self, &frames_type);
  struct gyre_bytes *bytes = frames->bytes;
  if (!bytes) return Qnil;
  char *start = bytes->bytes + bytes->offset;
  struct gyre_websocket_event event = gyre_websocket_input_next(&frames->input, start, gyre_bytes_held(bytes));
  VALUE result = event.kind == GYRE_WEBSOCKET_INCOMPLETE ? Qnil : event_of(&event);
  if (event.kind == GYRE_WEBSOCKET_MESSAGE) gyre_websocket_input_taken(&frames->input);
  bytes->length = bytes->offset + gyre_websocket_input_close_gap(&frames->input, start, gyre_bytes_held(bytes));
  gyre_bytes_consume(&frames->bytes, gyre_websocket_input_release(&frames->input));
  return result;
}

/* frame(opcode, payload, mask): returns a masked, final frame; `mask` has 4 unpredictable bytes
 * (section 10.3). */
static VALUE frames_frame(VALUE class, VALUE opcode, VALUE payload, VALUE mask) {
  uint8_t head[GYRE_WEBSOCKET_HEAD_BYTES];
  StringValue(payload);
  StringValue(mask);
  if (RSTRING_LEN(mask) != 4) rb_raise(rb_eArgError, "a mask has 4 bytes");
  long length = RSTRING_LEN(payload);
  size_t bytes = gyre_websocket_frame_head(head, NUM2UINT(opcode), false, (uint64_t)length);
  head[1] |= 0x80;
  VALUE frame = rb_str_buf_new((long)bytes + 4 + length);
  rb_str_cat(frame, (const char *)head, (long)bytes);
  rb_str_append(frame, mask);
  rb_str_cat(frame, RSTRING_PTR(payload), length);
  gyre_websocket_unmask(RSTRING_PTR(frame) + bytes + 4, (size_t)length, (const uint8_t *)RSTRING_PTR(mask), 0);
  RB_GC_GUARD(payload);
  return frame;
}

void gyre_init_websocket_frames(void) {
  VALUE outer = rb_define_class_under(gyre_mGyre, "WebSocket", rb_cObject);
  VALUE class = gyre_class(outer, "Frames", frames_allocate);
  rb_define_method(class, "initialize", frames_initialize, 1);
  rb_define_method(class, "<<", frames_append, 1);
  rb_define_method(class, "next", frames_next, 0);
  rb_define_singleton_method(class, "frame", frames_frame, 3);
}
