/* Runs the app's code for a WebSocket: one fiber at a time, so that a socket's messages stay in
 * order. A session that reads by itself has its fiber until it returns; any other has one only
 * while its code runs. Sockets that are due in the same turn share one until their code waits. */
#include "websocket/websocket.h"

#include <ruby/encoding.h>

static VALUE session, on_open, on_drained, on_close;

bool gyre_websocket_is_due(const struct gyre_websocket *websocket) {
  if (websocket->run.busy || websocket->run.told || !websocket->run.begun) return false;
  if (!websocket->run.opened) return websocket->connection;
  if (!websocket->connection) return websocket->run.wants & GYRE_WEBSOCKET_WANTS_CLOSE;
  return websocket->run.wants && (websocket->unread || websocket->drained || websocket->connection->readable);
}

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

VALUE gyre_websocket_take(struct gyre_websocket *websocket) {
  const struct gyre_bytes *input = websocket->connection->transport.input;
  const char *bytes = input ? input->bytes + input->offset + websocket->input.start : "";
  bool text = websocket->input.opcode == GYRE_WEBSOCKET_TEXT;
  rb_encoding *encoding = text ? rb_utf8_encoding() : rb_ascii8bit_encoding();
  int fault = 0;
  VALUE message = websocket->input.compressed ? inflate_message(websocket, bytes, encoding, &fault)
                                              : rb_enc_str_new(bytes, websocket->input.held, encoding);
  if (fault) {
    bool long_one = fault == -GYRE_WEBSOCKET_TOO_BIG;
    gyre_websocket_fail(websocket, (unsigned)-fault,
                        long_one ? "the message is too long" : "the message cannot be inflated");
    return Qnil;
  }
  gyre_websocket_taken(websocket);
  websocket->acceptor->statistics.messages_received++;
  return message;
}

static VALUE begin(struct gyre_websocket *websocket) {
  websocket->run.busy = true;
  websocket->run.fiber = rb_fiber_current();
  return websocket->self;
}

/* Begins with the next socket of this turn; nil: none. */
static VALUE take_due(struct gyre_scheduler *scheduler) {
  while (!gyre_list_empty(&scheduler->due_posts)) {
    struct gyre_post *post = GYRE_CONTAINER(scheduler->due_posts.next, struct gyre_post, node);
    struct gyre_websocket *websocket = GYRE_CONTAINER(post, struct gyre_websocket, run.starting);
    if (post->run != gyre_websocket_start_due) break;
    gyre_list_remove(&post->node);
    if (gyre_websocket_is_due(websocket)) return begin(websocket);
  }
  return Qnil;
}

static VALUE fiber_main(VALUE self) {
  if (!session) session = gyre_kept(rb_path2class("Gyre::WebSocket::Session"));
  return rb_funcall(session, rb_intern("serve"), 1, begin(RTYPEDDATA_DATA(self)));
}

static VALUE websocket_handler(VALUE self) {
  return ((const struct gyre_websocket *)RTYPEDDATA_DATA(self))->run.session;
}

/* Returns a message or the name of the handler's next method, in order: open, messages and drained
 * output as they come, close; nil if nothing is due. */
static VALUE websocket_event(VALUE self) {
  struct gyre_websocket *websocket = RTYPEDDATA_DATA(self);
  if (!websocket->run.opened) {
    websocket->run.opened = true;
    return on_open;
  }
  if (!websocket->run.wants) return Qnil;
  gyre_yield_if_due(websocket->acceptor->scheduler);
  for (gyre_websocket_receive(websocket); websocket->unread; gyre_websocket_receive(websocket)) {
    VALUE message = gyre_websocket_take(websocket);
    if (!NIL_P(message)) return message;
  }
  if (websocket->drained) {
    websocket->drained = false;
    return on_drained;
  }
  if (websocket->connection || websocket->run.told || !(websocket->run.wants & GYRE_WEBSOCKET_WANTS_CLOSE)) return Qnil;
  websocket->run.told = true;
  return on_close;
}

/* Returns the turn's next socket, or nil. `clean`: false if fiber-locals are left; nil if the code
 * was ended from outside, which ends the socket, too. */
static VALUE websocket_over(VALUE self, VALUE clean) {
  struct gyre_websocket *websocket = RTYPEDDATA_DATA(self);
  struct gyre_scheduler *scheduler = websocket->acceptor->scheduler;
  websocket->run.busy = false;
  websocket->run.fiber = Qnil;
  if (NIL_P(clean)) {
    websocket->run.told = websocket->discards = true;
    gyre_websocket_close(
        websocket, websocket->acceptor->draining ? GYRE_WEBSOCKET_GOING_AWAY : GYRE_WEBSOCKET_SERVER_ERROR, "", 0);
  }
  gyre_websocket_settle(websocket);
  if (NIL_P(clean) || gyre_list_empty(&scheduler->due_posts)) return Qnil;
  gyre_job_is_over(scheduler, !RTEST(clean));
  return take_due(scheduler);
}

static VALUE spawn(VALUE self) {
  const struct gyre_websocket *websocket = RTYPEDDATA_DATA(self);
  return gyre_spawn(websocket->acceptor->scheduler, fiber_main, self, Qnil);
}

/* Ends this socket alone if no fiber can be made. */
void gyre_websocket_start_due(struct gyre_scheduler *scheduler, struct gyre_post *post) {
  struct gyre_websocket *websocket = GYRE_CONTAINER(post, struct gyre_websocket, run.starting);
  if (!gyre_websocket_is_due(websocket)) return;
  VALUE self = websocket->self;
  int state = 0;
  websocket->run.busy = true;
  rb_protect(spawn, self, &state);
  if (state) {
    bool begun = !websocket->run.busy || !NIL_P(websocket->run.fiber);
    if (!begun) {
      websocket->run.busy = false;
      websocket->run.told = true;
      gyre_websocket_cut(websocket, GYRE_WEBSOCKET_SERVER_ERROR);
      gyre_websocket_settle(websocket);
    }
    state = gyre_http_handler_failed(websocket->acceptor, state, begun);
  }
  RB_GC_GUARD(self);
  if (state) rb_jump_tag(state);
}

void gyre_websocket_settle(struct gyre_websocket *websocket) {
  if (websocket->connection || websocket->run.busy || gyre_websocket_is_due(websocket)) return;
  gyre_list_remove(&websocket->run.starting.node); /* posted for output that drained just before the end */
  rb_hash_delete(websocket->acceptor->upgraded, websocket->self);
  if (!websocket->abandoned) gyre_http_acceptor_settle(websocket->acceptor);
}

void gyre_init_websocket_session(VALUE class) {
  on_open = ID2SYM(rb_intern("on_open"));
  on_drained = ID2SYM(rb_intern("on_drained"));
  on_close = ID2SYM(rb_intern("on_close"));
  rb_define_method(class, "handler", websocket_handler, 0);
  rb_define_method(class, "event", websocket_event, 0);
  rb_define_method(class, "over", websocket_over, 1);
}
