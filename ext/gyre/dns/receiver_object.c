/* Gyre::DNS::Receiver: a DNS server's UDP socket on its loop. Takes up to 16 requests per system
 * call, sends the responder's answers in one, and runs pooled fibers for the others. Called by
 * lib/gyre/dns/server.rb, which owns the socket. */
#include "dns/dns.h"
#include "fiber/scheduler.h"
#include "loop/forks.h"
#include "net/datagram.h"
#include "net/socket_wait.h"

#include <errno.h>
#include <ruby/io.h>
#include <stdlib.h>

#define REQUEST_BYTES 4096 /* longer requests are malformed */
#define ROUNDS 8           /* batches a turn */

struct receiver {
  VALUE self, io, responder, log;   /* `log` is nil, or gets the responses */
  VALUE pending;                    /* an Array of questions for rules, and of responses to log */
  struct gyre_scheduler *scheduler; /* NULL unless it is watching */
  struct gyre_watch watch;
  struct gyre_deferred flushing;
  struct gyre_datagram_queue *queue;
  int fd;
  unsigned forks;
  unsigned waiting, waiting_limit; /* rules' fibers */
  uint64_t refused;                /* responses that the kernel refused */
};

static VALUE receiver_class, watching; /* an Array: keeps the receivers that a loop can reach */

static void receiver_mark(void *opaque) {
  const struct receiver *receiver = opaque;
  rb_gc_mark(receiver->self); /* pinned: C keeps its address */
  rb_gc_mark(receiver->io);
  rb_gc_mark(receiver->responder);
  rb_gc_mark(receiver->log);
  rb_gc_mark(receiver->pending);
}

static void receiver_free(void *opaque) {
  struct receiver *receiver = opaque;
  gyre_deferred_cancel(&receiver->flushing);
  free(receiver->queue);
  xfree(receiver);
}

GYRE_TYPE(receiver_type, "Gyre::DNS::Receiver", receiver_mark, receiver_free, NULL, RUBY_TYPED_WB_PROTECTED);

static struct receiver *get(VALUE self) { return rb_check_typeddata(self, &receiver_type); }

static VALUE address_string(const struct gyre_datagram_address *address) {
  return rb_str_new((const char *)&address->any, (long)address->length);
}

static void call_log(struct receiver *receiver, VALUE response, const struct gyre_datagram_address *from) {
  rb_funcall(receiver->log, rb_intern("log"), 2, response, address_string(from));
}

static void flush(struct receiver *receiver) {
  bool open = receiver->forks == gyre_forks && gyre_socket_is_open(receiver->io, receiver->fd);
  receiver->refused += open ? gyre_datagram_flush(receiver->fd, receiver->queue) : (size_t)receiver->queue->count;
  receiver->queue->count = 0;
}

static void flush_at_the_end(struct gyre_loop *loop, struct gyre_deferred *deferred) {
  flush(GYRE_CONTAINER(deferred, struct receiver, flushing));
}

/* Returns the next response's place. */
static char *place(struct receiver *receiver) {
  if (receiver->queue->count == GYRE_DATAGRAM_BATCH) flush(receiver);
  return receiver->queue->bytes[receiver->queue->count];
}

static void send_response(struct receiver *receiver, VALUE transaction, VALUE response) {
  struct gyre_datagram_address from;
  const struct gyre_datagram_local *local = gyre_dns_transaction_sender(transaction, &from);
  if (!receiver->scheduler || receiver->forks != gyre_forks) return;
  char *to = place(receiver);
  bool plain = NIL_P(response);
  size_t length = plain ? gyre_dns_transaction_write(transaction, (uint8_t *)to) : (size_t)RSTRING_LEN(response);
  if (gyre_datagram_enqueue(receiver->queue, plain ? to : RSTRING_PTR(response), length, &from, local))
    gyre_loop_defer(&receiver->scheduler->loop, &receiver->flushing);
  if (!NIL_P(receiver->log)) call_log(receiver, plain ? rb_str_new(to, (long)length) : response, &from);
}

static VALUE run_rules(VALUE self) {
  struct receiver *receiver = get(self);
  while (RARRAY_LEN(receiver->pending) > 0) {
    VALUE object = rb_ary_shift(receiver->pending);
    if (RB_TYPE_P(object, T_ARRAY)) /* logs here, as a write may wait */
      rb_funcallv(receiver->log, rb_intern("log"), 2, RARRAY_CONST_PTR(object));
    else
      send_response(receiver, object, gyre_dns_transaction_call(object));
    RB_GC_GUARD(object);
  }
  return Qnil;
}

static VALUE end_rules(VALUE self) {
  get(self)->waiting--;
  return Qnil;
}

static VALUE rules_main(VALUE self) { return rb_ensure(run_rules, self, end_rules, self); }

/* A fiber runs rules one by one and is replaced when it waits. Raises a rule's Interrupt or
 * SystemExit. */
static VALUE start_rules(VALUE self) {
  struct receiver *receiver = get(self);
  while (RARRAY_LEN(receiver->pending) > 0 && receiver->scheduler) {
    if (receiver->waiting >= receiver->waiting_limit) {
      gyre_dns_responder_get(receiver->responder)->responder.counts.overload += (uint64_t)RARRAY_LEN(receiver->pending);
      rb_ary_clear(receiver->pending);
      break;
    }
    receiver->waiting++;
    gyre_spawn(receiver->scheduler, rules_main, self, Qnil);
  }
  return Qnil;
}

/* A packet, and the response from a zone; NULL: rules answer. */
struct arrival {
  struct receiver *receiver;
  const struct gyre_dns_request *request;
  const struct gyre_dns_manner *manner;
  const struct gyre_datagram_packet *packet;
  const char *response;
  size_t length;
};

/* Copies the bytes, as rules may receive packets into the lent memory. */
static VALUE add_pending(VALUE argument) {
  const struct arrival *arrival = (const struct arrival *)argument;
  const struct gyre_datagram_address *from = &arrival->packet->from;
  VALUE rules = gyre_dns_responder_get(arrival->receiver->responder)->rules;
  VALUE added = arrival->response
                    ? rb_assoc_new(rb_str_new(arrival->response, (long)arrival->length), address_string(from))
                    : gyre_dns_transaction_new(rules, arrival->request, arrival->manner, from, &arrival->packet->local);
  rb_ary_push(arrival->receiver->pending, added);
  return Qnil;
}

static void answer(struct receiver *receiver, const struct gyre_datagram_packet *packet, uint32_t now_s) {
  struct gyre_dns_responder *responder = &gyre_dns_responder_get(receiver->responder)->responder;
  struct gyre_dns_manner manner;
  struct gyre_dns_request request = {
      .bytes = (const uint8_t *)packet->bytes, .length = packet->length, .from = &packet->from.any, .now_s = now_s};
  char *to = place(receiver);
  struct arrival arrival = {receiver, &request, &manner, packet, NULL, 0};
  int state = 0;
  enum gyre_dns_action action = gyre_dns_respond(responder, &request, &manner, (uint8_t *)to, &arrival.length);
  if (action == GYRE_DNS_REPLY) {
    (void)gyre_datagram_enqueue(receiver->queue, to, arrival.length, &packet->from, &packet->local);
    arrival.response = to;
  }
  if (action == GYRE_DNS_DROP || (action == GYRE_DNS_REPLY && NIL_P(receiver->log))) return;
  rb_protect(add_pending, (VALUE)&arrival, &state);
  if (!state) return;
  rb_set_errinfo(Qnil); /* no memory: a line of the log or a question is lost */
  if (action == GYRE_DNS_ASK) responder->counts.overload++;
}

static void on_readable(struct gyre_loop *loop, struct gyre_watch *watch, unsigned ready) {
  struct receiver *receiver = GYRE_CONTAINER(watch, struct receiver, watch);
  uint32_t now_s = gyre_dns_now_s();
  int state = 0, count = GYRE_DATAGRAM_BATCH;
  for (int round = 0; round < ROUNDS && count == GYRE_DATAGRAM_BATCH && receiver->scheduler && !state; round++) {
    struct gyre_datagram_packet packets[GYRE_DATAGRAM_BATCH];
    count = gyre_datagram_receive(receiver->fd, REQUEST_BYTES, packets, GYRE_DATAGRAM_BATCH);
    for (int i = 0; i < count; i++) answer(receiver, &packets[i], now_s);
    if (RARRAY_LEN(receiver->pending) > 0) rb_protect(start_rules, receiver->self, &state);
    flush(receiver);
  }
  if (receiver->scheduler) {
    /* A batch that is not full has emptied the socket; after a network error there may be more. */
    if (count == GYRE_DATAGRAM_BATCH || (count < 0 && count != -EAGAIN))
      gyre_loop_report_again(loop, watch, GYRE_READABLE);
    else
      gyre_loop_drained(loop, receiver->fd, GYRE_READABLE);
  }
  if (state) rb_jump_tag(state);
}

static VALUE receiver_allocate(VALUE class) {
  struct receiver *receiver;
  VALUE self = TypedData_Make_Struct(class, struct receiver, &receiver_type, receiver);
  receiver->self = self;
  receiver->io = receiver->responder = receiver->log = receiver->pending = Qnil;
  receiver->watch.fd = receiver->fd = -1;
  receiver->watch.ready = on_readable;
  gyre_deferred_init(&receiver->flushing, flush_at_the_end);
  return self;
}

/* `log` gets each response and its client's address, in a fiber, or is nil; `waiting_limit`: rules
 * that run or wait at once. */
static VALUE receiver_initialize(VALUE self, VALUE io, VALUE responder, VALUE log, VALUE waiting_limit) {
  struct receiver *receiver = get(self);
  (void)gyre_dns_responder_get(responder);
  receiver->waiting_limit = NUM2UINT(waiting_limit);
  receiver->fd = rb_io_descriptor(io);
  RB_OBJ_WRITE(self, &receiver->io, io);
  RB_OBJ_WRITE(self, &receiver->responder, responder);
  RB_OBJ_WRITE(self, &receiver->log, log);
  RB_OBJ_WRITE(self, &receiver->pending, rb_ary_new());
  if (!receiver->queue && !(receiver->queue = calloc(1, sizeof(*receiver->queue)))) rb_memerror();
  return self;
}

/* Runs in this thread's scheduler until `stop`. */
static VALUE receiver_start(VALUE self) {
  struct receiver *receiver = get(self);
  if (!receiver->queue || receiver->scheduler) rb_raise(rb_eArgError, "uninitialized or started already");
  struct gyre_scheduler *scheduler = gyre_scheduler_current();
  receiver->forks = gyre_forks;
  rb_ary_push(watching, self);
  int error = gyre_loop_watch(&scheduler->loop, &receiver->watch, receiver->fd, GYRE_READABLE | GYRE_STANDING);
  if (error) {
    rb_ary_delete(watching, self);
    rb_syserr_fail(-error, "watch a UDP socket");
  }
  receiver->scheduler = scheduler;
  return Qnil;
}

/* Sends pending responses. May be called again. */
static VALUE receiver_stop(VALUE self) {
  struct receiver *receiver = get(self);
  struct gyre_scheduler *scheduler = receiver->scheduler;
  if (!scheduler) return Qnil;
  receiver->scheduler = NULL;
  gyre_deferred_cancel(&receiver->flushing);
  if (receiver->forks == gyre_forks) {
    flush(receiver);
    gyre_loop_unwatch(&scheduler->loop, &receiver->watch);
    gyre_loop_forget_unwatched(&scheduler->loop, receiver->fd);
  }
  rb_ary_delete(watching, self);
  return Qnil;
}

/* Number of rules that run or wait. */
static VALUE receiver_waiting(VALUE self) { return UINT2NUM(get(self)->waiting); }

static VALUE receiver_refused(VALUE self) { return ULL2NUM(get(self)->refused); }

void gyre_init_dns_receiver(void) {
  gyre_forks_count();
  watching = gyre_kept(rb_ary_new());
  receiver_class = rb_define_class_under(gyre_mDNS, "Receiver", rb_cObject);
  rb_define_alloc_func(receiver_class, receiver_allocate);
  rb_define_method(receiver_class, "initialize", receiver_initialize, 4);
  rb_define_method(receiver_class, "start", receiver_start, 0);
  rb_define_method(receiver_class, "stop", receiver_stop, 0);
  rb_define_method(receiver_class, "waiting", receiver_waiting, 0);
  rb_define_method(receiver_class, "refused", receiver_refused, 0);
}
