/*
 * Departures of clients are found by the loop's callbacks (gyre_http_exchange_peer_ended), where no
 * code of the app can run: what waits for them is told here, each in a fiber of its own.
 */
#include "http/http1.h"

#define TELL_AGAIN_NS INT64_C(100000000)

/* Of those whose requests have ended meanwhile, the handlers have told. */
static VALUE collect_departures(VALUE argument) {
  struct gyre_http1_acceptor *acceptor = (struct gyre_http1_acceptor *)argument;
  while (!gyre_list_empty(&acceptor->leaving)) {
    struct gyre_http_exchange *exchange = GYRE_CONTAINER(acceptor->leaving.next, struct gyre_http_exchange, leaving);
    rb_ary_push(acceptor->departed, exchange->gone);
    exchange->told = true;
    gyre_list_remove(&exchange->leaving);
  }
  return Qnil;
}

static void settle_departed(VALUE promise) { gyre_http_exchange_settle((struct gyre_http_promise){promise, Qtrue}); }

/* In a fiber of its own. */
static VALUE settle_next(VALUE self) {
  const struct gyre_http1_acceptor *acceptor = RTYPEDDATA_DATA(self);
  if (RARRAY_LEN(acceptor->departed) > 0) settle_departed(rb_ary_pop(acceptor->departed));
  return Qnil;
}

struct telling {
  struct gyre_http1_acceptor *acceptor;
  long left; /* promises, before the last fiber was started */
};

static VALUE start_telling(VALUE argument) {
  struct telling *telling = (struct telling *)argument;
  struct gyre_http1_acceptor *acceptor = telling->acceptor;
  collect_departures((VALUE)acceptor);
  for (long count = RARRAY_LEN(acceptor->departed); count > 0; count--) {
    telling->left = RARRAY_LEN(acceptor->departed);
    gyre_spawn(acceptor->scheduler, settle_next, acceptor->self, Qnil);
  }
  return Qnil;
}

/* There may be no fiber, for it has no memory or too many memory maps: that is no end of the loop,
 * and what is left is told when some have ended. */
static void tell_departures(struct gyre_scheduler *scheduler, struct gyre_post *post) {
  struct gyre_http1_acceptor *acceptor = GYRE_CONTAINER(post, struct gyre_http1_acceptor, departures);
  struct telling telling = {.acceptor = acceptor};
  int state = 0;
  rb_protect(start_telling, (VALUE)&telling, &state);
  if (!state) return;
  int64_t when_ns = gyre_loop_now(&scheduler->loop) + TELL_AGAIN_NS;
  if (gyre_timers_arm(&scheduler->loop.timers, &acceptor->telling, when_ns) < 0) gyre_post(scheduler, post);
  state = gyre_http_handler_failed(acceptor, state, RARRAY_LEN(acceptor->departed) < telling.left);
  if (state) rb_jump_tag(state);
}

static void tell_again(struct gyre_timer *timer, void *context) {
  struct gyre_http1_acceptor *acceptor = GYRE_CONTAINER(timer, struct gyre_http1_acceptor, telling);
  (void)context;
  gyre_post(acceptor->scheduler, &acceptor->departures);
}

void gyre_http_departures_start(struct gyre_http1_acceptor *acceptor) {
  acceptor->departures.run = tell_departures;
  acceptor->telling.fire = tell_again;
}

void gyre_http_departures_forget(struct gyre_http1_acceptor *acceptor) {
  while (!gyre_list_empty(&acceptor->leaving)) gyre_list_remove(acceptor->leaving.next);
  gyre_list_init(&acceptor->departures.node);
  acceptor->telling.place = 0;
}

void gyre_http_departures_tell_last(struct gyre_http1_acceptor *acceptor) {
  int state = 0;
  gyre_list_remove(&acceptor->departures.node);
  gyre_timers_cancel(&acceptor->scheduler->loop.timers, &acceptor->telling);
  rb_protect(collect_departures, (VALUE)acceptor, &state);
  if (state) rb_set_errinfo(Qnil);
  while (RARRAY_LEN(acceptor->departed) > 0) settle_departed(rb_ary_pop(acceptor->departed));
}
