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
#include <string.h>

#define REQUEST_BYTES 4096 /* longer requests are malformed */
#define ROUNDS 8           /* batches a turn */

struct receiver {
  VALUE self, io, responder, log;   /* `log` is nil, or gets the responses */
  VALUE pending;                    /* an Array of questions for rules, and of responses to log */
  struct gyre_scheduler *scheduler; /* NULL unless it is watching */
  struct gyre_client client;
  struct gyre_watch watch;
  struct gyre_deferred flushing;
  struct gyre_datagram_queue *queue;
  int fd;
  unsigned waiting, waiting_limit; /* rules' fibers */
};

static void receiver_mark(void *opaque) {
  const struct receiver *receiver = opaque;
  GYRE_MARK(receiver->self, receiver->io, receiver->responder, receiver->log, receiver->pending);
}

static void receiver_free(void *opaque) {
  struct receiver *receiver = opaque;
  gyre_deferred_cancel(&receiver->flushing);
  free(receiver->queue);
  xfree(receiver);
}

GYRE_TYPE(receiver_type, "Gyre::DNS::Receiver", receiver_mark, receiver_free, NULL, RUBY_TYPED_WB_PROTECTED);

static struct receiver *get(VALUE self) { return rb_check_typeddata(self, &receiver_type); }

static void flush(struct receiver *receiver) {
  bool open = receiver->client.forks == gyre_forks && gyre_socket_is_open(receiver->io, receiver->fd);
  gyre_dns_responder_get(receiver->responder)->responder.counts.unsent +=
      open ? gyre_datagram_flush(receiver->fd, receiver->queue) : (size_t)receiver->queue->count;
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

/* A request or a deferred transaction, and its response. */
struct arrival {
  struct receiver *receiver;
  struct gyre_datagram_address from;
  const struct gyre_datagram_local *local;
  VALUE transaction; /* or Qfalse: made of the request if rules answer */
  const struct gyre_dns_request *request;
  const struct gyre_dns_manner *manner;
  const char *response; /* in place(); NULL: rules answer */
  size_t length;
};

/* Copies the bytes, as rules may receive packets into the lent memory. */
static VALUE add_body(VALUE argument) {
  const struct arrival *arrival = (const struct arrival *)argument;
  VALUE rules = gyre_dns_responder_get(arrival->receiver->responder)->rules, added = arrival->transaction;
  if (arrival->response)
    added = rb_assoc_new(rb_str_new(arrival->response, (long)arrival->length),
                         rb_str_new((const char *)&arrival->from.any, (long)arrival->from.length));
  else if (!added)
    added = gyre_dns_transaction_new(rules, arrival->request, arrival->manner, &arrival->from, arrival->receiver->self,
                                     arrival->local);
  rb_ary_push(arrival->receiver->pending, added);
  return Qnil;
}

/* Adds a question for rules, or a response to be logged in a fiber, as a write may wait. */
static void add_pending(const struct arrival *arrival) {
  int state = 0;
  rb_protect(add_body, (VALUE)arrival, &state);
  if (!state) return;
  rb_set_errinfo(Qnil); /* no memory: a line of the log or a question is lost */
  if (!arrival->response) gyre_dns_responder_get(arrival->receiver->responder)->responder.counts.overload++;
}

static void send_response(struct arrival *arrival, char *to) {
  struct receiver *receiver = arrival->receiver;
  (void)gyre_datagram_enqueue(receiver->queue, to, arrival->length, &arrival->from, arrival->local);
  gyre_loop_defer(&receiver->scheduler->loop, &receiver->flushing);
  arrival->response = to;
  if (!NIL_P(receiver->log)) add_pending(arrival);
}

/* Returns the place of a transaction's response; NULL if it can no longer be sent. */
static char *begin_response(struct arrival *arrival, struct receiver *receiver, VALUE transaction) {
  if (!receiver->scheduler || receiver->client.forks != gyre_forks) return NULL;
  *arrival = (struct arrival){.receiver = receiver, .transaction = transaction};
  const struct gyre_dns_transaction *asked = gyre_dns_transaction_get(transaction);
  arrival->local = &asked->local;
  arrival->from.length = asked->from_length;
  memcpy(&arrival->from.any, &asked->from, asked->from_length);
  return place(receiver);
}

static void run_rule(struct receiver *receiver, VALUE transaction) {
  struct arrival arrival;
  VALUE response = gyre_dns_transaction_call(transaction);
  char *to = response == Qfalse ? NULL : begin_response(&arrival, receiver, transaction);
  if (!to) return;
  if (NIL_P(response)) {
    arrival.length = gyre_dns_transaction_write(transaction, (uint8_t *)to);
  } else {
    arrival.length = (size_t)RSTRING_LEN(response);
    if (arrival.length > GYRE_DATAGRAM_QUEUED) return;
    memcpy(to, RSTRING_PTR(response), arrival.length);
  }
  send_response(&arrival, to);
}

/* Ends at the limit: each question may be deferred. */
static VALUE run_rules(VALUE self) {
  struct receiver *receiver = get(self);
  while (RARRAY_LEN(receiver->pending) > 0 && receiver->waiting <= receiver->waiting_limit) {
    VALUE object = rb_ary_shift(receiver->pending);
    if (RB_TYPE_P(object, T_ARRAY))
      rb_funcallv(receiver->log, rb_intern("log"), 2, RARRAY_CONST_PTR(object));
    else
      run_rule(receiver, object);
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

void gyre_dns_receiver_defer(struct gyre_dns_transaction *transaction) {
  transaction->deferred = transaction->again = true;
  get(transaction->receiver)->waiting++;
}

void gyre_dns_receiver_answer(VALUE transaction, const char *reply, size_t length) {
  struct receiver *receiver = get(gyre_dns_transaction_get(transaction)->receiver);
  struct arrival arrival;
  receiver->waiting--;
  char *to = begin_response(&arrival, receiver, transaction);
  if (!to) return;
  if (reply) arrival.length = gyre_dns_transaction_adopt(transaction, reply, length, (uint8_t *)to);
  if (arrival.length)
    send_response(&arrival, to);
  else
    add_pending(&arrival);
  if (RARRAY_LEN(receiver->pending) > 0)
    gyre_loop_report_again(&receiver->scheduler->loop, &receiver->watch, GYRE_READABLE);
}

static void answer(struct receiver *receiver, const struct gyre_datagram_packet *packet, uint32_t now_s) {
  struct gyre_dns_responder *responder = &gyre_dns_responder_get(receiver->responder)->responder;
  struct gyre_dns_manner manner;
  struct gyre_dns_request request = {
      .bytes = (const uint8_t *)packet->bytes, .length = packet->length, .from = &packet->from.any, .now_s = now_s};
  struct arrival arrival = {receiver, packet->from, &packet->local, Qfalse, &request, &manner, NULL, 0};
  char *to = place(receiver);
  enum gyre_dns_action action = gyre_dns_respond(responder, &request, &manner, (uint8_t *)to, &arrival.length);
  if (action == GYRE_DNS_REPLY) send_response(&arrival, to);
  if (action == GYRE_DNS_ASK) add_pending(&arrival);
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

/* Sends pending responses. */
static void stop_client(struct gyre_client *client) {
  struct receiver *receiver = GYRE_CONTAINER(client, struct receiver, client);
  struct gyre_loop *loop = &receiver->scheduler->loop;
  gyre_deferred_cancel(&receiver->flushing);
  if (receiver->client.forks == gyre_forks) {
    flush(receiver);
    gyre_loop_unwatch(loop, &receiver->watch);
    gyre_loop_forget_unwatched(loop, receiver->fd);
  }
  receiver->scheduler = NULL;
  gyre_list_remove(&client->node);
}

/* Runs in this thread's scheduler until `stop`. `log` gets each response and its client's address,
 * in a fiber, or is nil; `waiting_limit`: rules that run or wait at once. */
static VALUE receiver_new(VALUE class, VALUE io, VALUE responder, VALUE log, VALUE waiting_limit) {
  struct gyre_scheduler *scheduler = gyre_scheduler_current();
  struct receiver *receiver;
  unsigned limit = NUM2UINT(waiting_limit);
  int fd = rb_io_descriptor(io);
  (void)gyre_dns_responder_get(responder);
  VALUE self = TypedData_Make_Struct(class, struct receiver, &receiver_type, receiver);
  gyre_deferred_init(&receiver->flushing, flush_at_the_end);
  receiver->self = self;
  receiver->client = (struct gyre_client){.self = self, .closing = stop_client, .forked = stop_client};
  receiver->client.forks = gyre_forks;
  receiver->watch.ready = on_readable;
  receiver->fd = fd;
  receiver->waiting_limit = limit;
  RB_OBJ_WRITE(self, &receiver->io, io);
  RB_OBJ_WRITE(self, &receiver->responder, responder);
  RB_OBJ_WRITE(self, &receiver->log, log);
  RB_OBJ_WRITE(self, &receiver->pending, rb_ary_new());
  if (!(receiver->queue = calloc(1, sizeof(*receiver->queue)))) rb_memerror();
  int error = gyre_loop_watch(&scheduler->loop, &receiver->watch, fd, GYRE_READABLE | GYRE_STANDING);
  if (error) rb_syserr_fail(-error, "watch a UDP socket");
  receiver->scheduler = scheduler;
  gyre_list_append(&scheduler->clients, &receiver->client.node);
  return self;
}

/* May be called again. */
static VALUE receiver_stop(VALUE self) {
  struct receiver *receiver = get(self);
  if (receiver->scheduler) stop_client(&receiver->client);
  return Qnil;
}

/* Number of rules that run or wait. */
static VALUE receiver_waiting(VALUE self) { return UINT2NUM(get(self)->waiting); }

void gyre_init_dns_receiver(void) {
  gyre_forks_count();
  VALUE receiver_class = rb_define_class_under(gyre_mDNS, "Receiver", rb_cObject);
  rb_undef_alloc_func(receiver_class);
  rb_define_singleton_method(receiver_class, "new", receiver_new, 4);
  rb_define_method(receiver_class, "stop", receiver_stop, 0);
  rb_define_method(receiver_class, "waiting", receiver_waiting, 0);
}
