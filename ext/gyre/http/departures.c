/* Settles promises of clients' departures in fibers: the callbacks that find a departure
 * (gyre_http_exchange_peer_ended) cannot run app code. */
#include "http/exchange.h"

#define TELL_AGAIN_NS INT64_C(100000000)

/* Skips ended requests, whose handlers have settled the promises. */
static VALUE collect_departures(VALUE argument) {
  struct gyre_http_acceptor *acceptor = (struct gyre_http_acceptor *)argument;
  while (!gyre_list_empty(&acceptor->departures.leaving)) {
    struct gyre_http_exchange *exchange =
        GYRE_CONTAINER(acceptor->departures.leaving.next, struct gyre_http_exchange, departure.node);
    rb_ary_push(acceptor->departures.promises, exchange->departure.promise);
    exchange->departure.told = true;
    gyre_list_remove(&exchange->departure.node);
  }
  return Qnil;
}

static void settle_departed(VALUE promise) { gyre_http_exchange_settle((struct gyre_http_promise){promise, Qtrue}); }

/* Runs in a fiber of its own. */
static VALUE settle_next(VALUE self) {
  const struct gyre_http_acceptor *acceptor = RTYPEDDATA_DATA(self);
  if (RARRAY_LEN(acceptor->departures.promises) > 0) settle_departed(rb_ary_pop(acceptor->departures.promises));
  return Qnil;
}

struct telling {
  struct gyre_http_acceptor *acceptor;
  long left; /* promises from before the last fiber's start */
};

static VALUE start_telling(VALUE argument) {
  struct telling *telling = (struct telling *)argument;
  struct gyre_http_acceptor *acceptor = telling->acceptor;
  collect_departures((VALUE)acceptor);
  for (long count = RARRAY_LEN(acceptor->departures.promises); count > 0; count--) {
    telling->left = RARRAY_LEN(acceptor->departures.promises);
    gyre_spawn(acceptor->scheduler, settle_next, acceptor->self, Qnil);
  }
  return Qnil;
}

/* Retries later if no fiber can be made. */
static void tell_departures(struct gyre_scheduler *scheduler, struct gyre_post *post) {
  struct gyre_http_acceptor *acceptor = GYRE_CONTAINER(post, struct gyre_http_acceptor, departures.post);
  struct telling telling = {.acceptor = acceptor};
  int state = 0;
  rb_protect(start_telling, (VALUE)&telling, &state);
  if (!state) return;
  int64_t when_ns = gyre_loop_now(&scheduler->loop) + TELL_AGAIN_NS;
  if (gyre_timers_arm(&scheduler->loop.timers, &acceptor->departures.again, when_ns) < 0) gyre_post(scheduler, post);
  state = gyre_http_handler_failed(acceptor, state, RARRAY_LEN(acceptor->departures.promises) < telling.left);
  if (state) rb_jump_tag(state);
}

static void tell_again(struct gyre_timer *timer, void *context) {
  struct gyre_http_acceptor *acceptor = GYRE_CONTAINER(timer, struct gyre_http_acceptor, departures.again);
  gyre_post(acceptor->scheduler, &acceptor->departures.post);
}

void gyre_http_departures_start(struct gyre_http_acceptor *acceptor) {
  acceptor->departures.post.run = tell_departures;
  acceptor->departures.again.fire = tell_again;
}

void gyre_http_departures_forget(struct gyre_http_acceptor *acceptor) {
  while (!gyre_list_empty(&acceptor->departures.leaving)) gyre_list_remove(acceptor->departures.leaving.next);
  gyre_list_init(&acceptor->departures.post.node);
  acceptor->departures.again.place = 0;
}

void gyre_http_departures_tell_last(struct gyre_http_acceptor *acceptor) {
  int state = 0;
  gyre_list_remove(&acceptor->departures.post.node);
  gyre_timers_cancel(&acceptor->scheduler->loop.timers, &acceptor->departures.again);
  rb_protect(collect_departures, (VALUE)acceptor, &state);
  if (state) rb_set_errinfo(Qnil);
  while (RARRAY_LEN(acceptor->departures.promises) > 0) settle_departed(rb_ary_pop(acceptor->departures.promises));
}
