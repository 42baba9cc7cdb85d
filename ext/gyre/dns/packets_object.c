/* UDP sockets on a loop: Gyre::DNS::Receiver for lib/gyre/dns/server.rb, which owns the socket, and
 * Forwarder for upstream.rb. Both receive up to 16 packets per system call. A receiver sends the
 * responder's answers together, and runs rules in pooled fibers. A forwarder needs no fibers. It
 * passes questions on to one name server, each with a random id and random letter case. If no
 * usable answer comes, the rules get the question again. */
#include "dns/dns.h"
#include "fiber/scheduler.h"
#include "loop/forks.h"
#include "net/socket_wait.h"

#include <ruby/io.h>

#define REQUEST_BYTES 4096 /* longer requests are malformed */
#define ROUNDS 8           /* maximum batches in a turn */

struct packets {
  struct gyre_scheduler *scheduler; /* NULL: closed */
  struct gyre_client client;
  struct gyre_watch watch;
  int fd;
};

/* Watches for packets in this thread's scheduler until `leave`. Returns 0 or -errno. */
static int enter(struct packets *packets, VALUE self, int fd,
                 void (*ready)(struct gyre_loop *, struct gyre_watch *, unsigned),
                 void (*closing)(struct gyre_client *)) {
  struct gyre_scheduler *scheduler = gyre_scheduler_current();
  packets->client = (struct gyre_client){.self = self, .forks = gyre_forks, .closing = closing, .forked = closing};
  packets->watch.ready = ready;
  packets->fd = fd;
  int error = gyre_loop_watch(&scheduler->loop, &packets->watch, fd, GYRE_READABLE | GYRE_STANDING);
  if (error) return error;
  packets->scheduler = scheduler;
  gyre_list_append(&scheduler->clients, &packets->client.node);
  return 0;
}

static void leave(struct packets *packets) {
  struct gyre_loop *loop = &packets->scheduler->loop;
  if (packets->client.forks == gyre_forks) {
    gyre_loop_unwatch(loop, &packets->watch);
    gyre_loop_forget_unwatched(loop, packets->fd);
  }
  packets->scheduler = NULL;
  gyre_list_remove(&packets->client.node);
}

/* A batch that is not full has emptied the socket. After a network error, more packets may wait. */
static void await_more(struct packets *packets, int count) {
  struct gyre_loop *loop = &packets->scheduler->loop;
  if (count == GYRE_DATAGRAM_BATCH || (count < 0 && count != -EAGAIN))
    gyre_loop_report_again(loop, &packets->watch, GYRE_READABLE);
  else
    gyre_loop_drained(loop, packets->fd, GYRE_READABLE);
}

struct receiver {
  struct packets packets;
  VALUE io, responder, log; /* `log` is nil, or gets the responses */
  VALUE pending;            /* Array: questions for rules, and responses for the log */
  struct gyre_deferred flushing;
  struct gyre_datagram_queue *queue;
  unsigned waiting, waiting_limit; /* number of rules that run or wait; its maximum */
  bool paused;                     /* receives nothing */
};

GYRE_MARKER(receiver_mark, struct receiver, own->packets.client.self, own->io, own->responder, own->log, own->pending)

static void receiver_free(void *opaque) {
  struct receiver *receiver = opaque;
  gyre_deferred_cancel(&receiver->flushing);
  free(receiver->queue);
  xfree(receiver);
}

GYRE_TYPE(receiver_type, "Gyre::DNS::Receiver", receiver_mark, receiver_free, NULL, RUBY_TYPED_WB_PROTECTED);

static struct receiver *get(VALUE self) { return rb_check_typeddata(self, &receiver_type); }

static void flush(struct receiver *receiver) {
  bool open = receiver->packets.client.forks == gyre_forks && gyre_socket_is_open(receiver->io, receiver->packets.fd);
  gyre_dns_responder_get(receiver->responder)->responder.counts.unsent +=
      open ? gyre_datagram_flush(receiver->packets.fd, receiver->queue) : (size_t)receiver->queue->count;
  receiver->queue->count = 0;
}

static void flush_at_the_end(struct gyre_loop *loop, struct gyre_deferred *deferred) {
  flush(GYRE_CONTAINER(deferred, struct receiver, flushing));
}

/* Returns the queue's place for the next response. */
static char *place(struct receiver *receiver) {
  if (receiver->queue->count == GYRE_DATAGRAM_BATCH) flush(receiver);
  return receiver->queue->bytes[receiver->queue->count];
}

/* A request or a deferred transaction, and its response. */
struct arrival {
  struct receiver *receiver;
  struct gyre_datagram_address from;
  const struct gyre_datagram_local *local;
  VALUE transaction; /* Qfalse: add_body makes it if rules answer */
  const struct gyre_dns_request *request;
  const struct gyre_dns_manner *manner;
  const char *response; /* in the queue; NULL: rules answer */
  size_t length;
};

/* Copies the bytes, because rules may receive packets into the same lent memory. */
static VALUE add_body(VALUE argument) {
  const struct arrival *arrival = (const struct arrival *)argument;
  VALUE rules = gyre_dns_responder_get(arrival->receiver->responder)->rules, added = arrival->transaction;
  if (arrival->response)
    added = rb_assoc_new(rb_str_new(arrival->response, (long)arrival->length),
                         rb_str_new((const char *)&arrival->from.any, (long)arrival->from.length));
  else if (!added)
    added = gyre_dns_transaction_new(rules, arrival->request, arrival->manner, &arrival->from,
                                     arrival->receiver->packets.client.self, arrival->local);
  rb_ary_push(arrival->receiver->pending, added);
  return Qnil;
}

/* Adds a question for rules, or a response for the log. A fiber takes both, and may wait. */
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
  gyre_loop_defer(&receiver->packets.scheduler->loop, &receiver->flushing);
  arrival->response = to;
  if (!NIL_P(receiver->log)) add_pending(arrival);
}

/* Returns the place of a transaction's response; NULL if it can no longer be sent. */
static char *begin_response(struct arrival *arrival, struct receiver *receiver, VALUE transaction) {
  if (!receiver->packets.scheduler || receiver->packets.client.forks != gyre_forks) return NULL;
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

/* Runs rules and logs responses. Stops beyond the limit, because deferred questions also count. */
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

/* Starts a fiber that runs the rules one by one. Whenever a fiber waits, starts a further fiber.
 * Raises a rule's Interrupt or SystemExit. */
static VALUE start_rules(VALUE self) {
  struct receiver *receiver = get(self);
  while (RARRAY_LEN(receiver->pending) > 0 && receiver->packets.scheduler) {
    if (receiver->waiting >= receiver->waiting_limit) {
      gyre_dns_responder_get(receiver->responder)->responder.counts.overload += (uint64_t)RARRAY_LEN(receiver->pending);
      rb_ary_clear(receiver->pending);
      break;
    }
    receiver->waiting++;
    gyre_spawn(receiver->packets.scheduler, rules_main, self, Qnil);
  }
  return Qnil;
}

/* A deferred transaction counts as a waiting rule until it is answered. */
static void defer(struct gyre_dns_transaction *transaction) {
  transaction->deferred = true;
  get(transaction->receiver)->waiting++;
}

static VALUE keep_body(VALUE argument) {
  const struct arrival *arrival = (const struct arrival *)argument;
  return rb_funcall(arrival->transaction, rb_intern("keep"), 1, rb_str_new(arrival->response, (long)arrival->length));
}

/* Passes a reply to the cache. Returns the state of what was raised, such as an Interrupt. */
static int keep_reply(VALUE transaction, const char *reply, size_t length) {
  struct arrival arrival = {.transaction = transaction, .response = reply, .length = length};
  int state = 0;
  rb_protect(keep_body, (VALUE)&arrival, &state);
  if (!state || !RTEST(rb_obj_is_kind_of(rb_errinfo(), rb_eNoMemError))) return state;
  rb_set_errinfo(Qnil); /* the reply is not kept */
  return 0;
}

/* Sends the response. If no usable reply came, the rules get the question again. `state`: NULL
 * without a reply; if it is not 0, replies are not kept. */
static void answer_deferred(VALUE transaction, const char *reply, size_t length, int *state) {
  struct receiver *receiver = get(gyre_dns_transaction_get(transaction)->receiver);
  struct arrival arrival;
  receiver->waiting--;
  char *to = begin_response(&arrival, receiver, transaction);
  if (!to) return;
  if (reply) {
    arrival.length = gyre_dns_transaction_adopt(transaction, reply, length, (uint8_t *)to);
    if (arrival.length && !*state) *state = keep_reply(transaction, reply, length);
  }
  if (arrival.length)
    send_response(&arrival, to);
  else
    add_pending(&arrival);
  if (RARRAY_LEN(receiver->pending) > 0)
    gyre_loop_report_again(&receiver->packets.scheduler->loop, &receiver->packets.watch, GYRE_READABLE);
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
  struct receiver *receiver = GYRE_CONTAINER(watch, struct receiver, packets.watch);
  uint32_t now_s = (uint32_t)time(NULL);
  int state = 0, count = GYRE_DATAGRAM_BATCH;
  for (int round = 0; round < ROUNDS && count == GYRE_DATAGRAM_BATCH && receiver->packets.scheduler && !state;
       round++) {
    struct gyre_datagram_packet packets[GYRE_DATAGRAM_BATCH];
    count =
        receiver->paused ? 0 : gyre_datagram_receive(receiver->packets.fd, REQUEST_BYTES, packets, GYRE_DATAGRAM_BATCH);
    for (int i = 0; i < count; i++) answer(receiver, &packets[i], now_s);
    if (RARRAY_LEN(receiver->pending) > 0) rb_protect(start_rules, receiver->packets.client.self, &state);
  }
  if (receiver->packets.scheduler && !receiver->paused) await_more(&receiver->packets, count);
  if (state) rb_jump_tag(state);
}

/* Sends queued responses and leaves the loop. */
static void stop_client(struct gyre_client *client) {
  struct receiver *receiver = GYRE_CONTAINER(client, struct receiver, packets.client);
  gyre_deferred_cancel(&receiver->flushing);
  if (client->forks == gyre_forks) flush(receiver);
  leave(&receiver->packets);
}

/* Runs in this thread's scheduler until `stop`. `log` gets each response with its client's address,
 * in a fiber; nil: no log. `waiting_limit`: maximum rules that run or wait at once. */
static VALUE receiver_new(VALUE class, VALUE io, VALUE responder, VALUE log, VALUE waiting_limit) {
  struct receiver *receiver;
  unsigned limit = NUM2UINT(waiting_limit);
  int fd = rb_io_descriptor(io);
  (void)gyre_dns_responder_get(responder);
  VALUE self = TypedData_Make_Struct(class, struct receiver, &receiver_type, receiver);
  gyre_deferred_init(&receiver->flushing, flush_at_the_end);
  receiver->waiting_limit = limit;
  RB_OBJ_WRITE(self, &receiver->io, io);
  RB_OBJ_WRITE(self, &receiver->responder, responder);
  RB_OBJ_WRITE(self, &receiver->log, log);
  RB_OBJ_WRITE(self, &receiver->pending, rb_ary_new());
  if (!(receiver->queue = calloc(1, sizeof(*receiver->queue)))) rb_memerror();
  int error = enter(&receiver->packets, self, fd, on_readable, stop_client);
  if (error) rb_syserr_fail(-error, "watch a UDP socket");
  return self;
}

/* Leaves the loop. Repeated calls do nothing. */
static VALUE receiver_stop(VALUE self) {
  struct receiver *receiver = get(self);
  if (receiver->packets.scheduler) stop_client(&receiver->packets.client);
  return Qnil;
}

/* If true, packets stay in the socket; responses to those received before are still sent. */
static VALUE receiver_set_paused(VALUE self, VALUE paused) {
  struct receiver *receiver = get(self);
  receiver->paused = RTEST(paused);
  if (!receiver->paused && receiver->packets.scheduler)
    gyre_loop_report_again(&receiver->packets.scheduler->loop, &receiver->packets.watch, GYRE_READABLE);
  return paused;
}

/* Number of rules that run or wait. */
static VALUE receiver_waiting(VALUE self) { return UINT2NUM(get(self)->waiting); }

/* A question's place is its id modulo PLACES. The random bytes are enough for fewer than half of
 * the places. */
#define PLACES 1024
#define DRAWN_BYTES 10 /* random bytes of a question: its id, and the case of its letters */
#define TICK_NS INT64_C(1000000000)
#define TICKS_TAKING 2 /* ticks until another forwarder takes new questions */
#define TICKS_OPEN 7   /* ticks until a forwarder closes; the last question has 5 s for its reply */

struct place {
  VALUE transaction; /* Qfalse: free */
  uint8_t drawn[DRAWN_BYTES];
};

struct forwarder {
  struct packets packets;
  VALUE random; /* a String of random bytes, used up to `next` */
  struct gyre_timer tick;
  unsigned ticks, next, taken;
  struct place places[PLACES];
};

static void forwarder_mark(void *opaque) {
  const struct forwarder *forwarder = opaque;
  GYRE_MARK(forwarder->random, forwarder->packets.client.self);
  for (int i = 0; i < PLACES && forwarder->taken; i++) rb_gc_mark(forwarder->places[i].transaction);
}

/* No write barriers, because places change with every question. */
GYRE_TYPE(forwarder_type, "Gyre::DNS::Forwarder", forwarder_mark, RUBY_DEFAULT_FREE, NULL, 0);

static void give_back(struct forwarder *forwarder, struct place *place, const char *reply, size_t length, int *state) {
  VALUE transaction = place->transaction;
  place->transaction = Qfalse;
  forwarder->taken--;
  answer_deferred(transaction, reply, length, state);
  RB_GC_GUARD(transaction);
}

static void close_client(struct gyre_client *client) {
  struct forwarder *forwarder = GYRE_CONTAINER(client, struct forwarder, packets.client);
  VALUE self = client->self; /* kept alive here, because `leave` ends the loop's reference */
  if (client->forks == gyre_forks) gyre_timers_cancel(&forwarder->packets.scheduler->loop.timers, &forwarder->tick);
  leave(&forwarder->packets);
  close(forwarder->packets.fd);
  for (int i = 0; i < PLACES && forwarder->taken; i++)
    if (forwarder->places[i].transaction) give_back(forwarder, &forwarder->places[i], NULL, 0, NULL);
  RB_GC_GUARD(self);
}

static bool is_old(const struct forwarder *forwarder) {
  return forwarder->ticks >= TICKS_TAKING || forwarder->next + DRAWN_BYTES > (unsigned)RSTRING_LEN(forwarder->random);
}

static void on_tick(struct gyre_timer *timer, void *loop) {
  struct forwarder *forwarder = GYRE_CONTAINER(timer, struct forwarder, tick);
  if (++forwarder->ticks == TICKS_OPEN || (forwarder->taken == 0 && is_old(forwarder)) ||
      gyre_timers_arm(&((struct gyre_loop *)loop)->timers, timer, gyre_loop_now(loop) + TICK_NS) < 0)
    close_client(&forwarder->packets.client);
}

/* Reads the question's name, and changes its letters' case by the drawn bytes. */
static size_t drawn_name(const struct place *place, uint8_t name[GYRE_DNS_NAME_BYTES]) {
  size_t length = gyre_dns_transaction_read_name(place->transaction, name);
  for (size_t i = 0; i < length; i++) { /* labels' lengths are below 'A' and stay the same */
    uint8_t letter = name[i] | 0x20;
    bool changes = place->drawn[2 + i / 8 % 8] >> i % 8 & 1;
    if (changes && letter >= 'a' && letter <= 'z') name[i] ^= 0x20;
  }
  return length;
}

static bool is_answer(const struct place *place, const struct gyre_datagram_packet *packet) {
  struct gyre_dns_query reply;
  uint8_t name[GYRE_DNS_NAME_BYTES];
  enum gyre_dns_verdict verdict = gyre_dns_query_read(&reply, (const uint8_t *)packet->bytes, packet->length);
  if (packet->truncated || verdict != GYRE_DNS_WELL_FORMED || reply.counts[0] != 1) return false;
  if ((reply.flags & (GYRE_DNS_QR | GYRE_DNS_OPCODE | GYRE_DNS_TC)) != GYRE_DNS_QR) return false;
  unsigned rcode = reply.flags & GYRE_DNS_RCODE;
  bool failed = rcode == 1 || rcode == 2 || rcode == 4 || rcode == 5; /* other servers may answer */
  return !failed && reply.question.type == gyre_dns_transaction_get(place->transaction)->type &&
         reply.question.class == GYRE_DNS_IN && reply.question.name_length == drawn_name(place, name) &&
         memcmp(reply.question.name, name, reply.question.name_length) == 0;
}

/* Ignores packets with unknown ids. After an invalid reply the rules ask from another port. */
static void take(struct forwarder *forwarder, const struct gyre_datagram_packet *packet, int *state) {
  if (packet->length < GYRE_DNS_HEADER_BYTES) return;
  struct place *place = &forwarder->places[gyre_dns_16((const uint8_t *)packet->bytes) % PLACES];
  if (!place->transaction || memcmp(packet->bytes, place->drawn, 2) != 0) return;
  give_back(forwarder, place, is_answer(place, packet) ? packet->bytes : NULL, packet->length, state);
}

static void on_reply(struct gyre_loop *loop, struct gyre_watch *watch, unsigned ready) {
  struct forwarder *forwarder = GYRE_CONTAINER(watch, struct forwarder, packets.watch);
  struct gyre_datagram_packet packets[GYRE_DATAGRAM_BATCH];
  int count = gyre_datagram_receive(forwarder->packets.fd, GYRE_DATAGRAM_QUEUED, packets, GYRE_DATAGRAM_BATCH),
      state = 0;
  for (int i = 0; i < count; i++) take(forwarder, &packets[i], &state);
  if ((count < 0 && count != -EAGAIN) || (forwarder->taken == 0 && is_old(forwarder)))
    close_client(&forwarder->packets.client); /* after an error the server is unreachable */
  else
    await_more(&forwarder->packets, count);
  if (state) rb_jump_tag(state);
}

/* Opens a UDP socket to the name server at `sockaddr`, in this thread's scheduler. `random`: a
 * String, of which each draw of a place uses DRAWN_BYTES. Raises SystemCallError. */
static VALUE forwarder_new(VALUE class, VALUE sockaddr, VALUE random) {
  struct gyre_loop *loop = &gyre_scheduler_current()->loop;
  struct forwarder *forwarder;
  StringValue(sockaddr);
  StringValue(random);
  if (RSTRING_LEN(sockaddr) < (long)sizeof(sa_family_t)) rb_raise(rb_eArgError, "cannot open");
  VALUE self = TypedData_Make_Struct(class, struct forwarder, &forwarder_type, forwarder);
  forwarder->random = rb_str_new_frozen(random);
  forwarder->tick.fire = on_tick;
  const struct sockaddr *address = (const struct sockaddr *)RSTRING_PTR(sockaddr);
  int fd = socket(address->sa_family, SOCK_DGRAM, 0), error = 0;
  if (fd < 0) rb_sys_fail("open a UDP socket");
  rb_fd_fix_cloexec(fd);
  if (connect(fd, address, (socklen_t)RSTRING_LEN(sockaddr)) < 0) error = -errno;
  if (!error) error = enter(&forwarder->packets, self, fd, on_reply, close_client);
  if (!error && (error = gyre_timers_arm(&loop->timers, &forwarder->tick, gyre_loop_now(loop) + TICK_NS)) < 0)
    leave(&forwarder->packets);
  if (error) {
    close(fd);
    rb_syserr_fail(-error, "ask a name server");
  }
  return self;
}

/* Draws random bytes until their place is free. NULL: this forwarder takes no more questions. */
static struct place *draw(struct forwarder *forwarder) {
  while (forwarder->packets.scheduler && forwarder->packets.client.forks == gyre_forks && !is_old(forwarder)) {
    const char *drawn = RSTRING_PTR(forwarder->random) + forwarder->next;
    struct place *place = &forwarder->places[gyre_dns_16((const uint8_t *)drawn) % PLACES];
    forwarder->next += DRAWN_BYTES;
    if (place->transaction) continue;
    memcpy(place->drawn, drawn, DRAWN_BYTES);
    return place;
  }
  return NULL;
}

/* EDNS is for one hop (RFC 6891): the upstream gets an OPT of our own. */
static void put_query(const struct gyre_dns_transaction *asked, struct gyre_dns_writer *writer, uint16_t id) {
  struct gyre_dns_edns edns = {.udp_bytes = GYRE_DNS_UDP_BYTES, .flags = asked->manner.edns.flags};
  uint16_t counts[4] = {1, 0, 0, gyre_dns_put_opt(writer, &edns)};
  uint16_t repeated = gyre_dns_16((const uint8_t *)RSTRING_PTR(asked->bytes) + 2) & (GYRE_DNS_CD | GYRE_DNS_AD);
  gyre_dns_put_header(writer, id, GYRE_DNS_RD | repeated, counts);
}

/* Passes on a deferrable transaction's question, and sends the response when the reply comes.
 * Returns false if this forwarder takes no more questions. */
static VALUE forwarder_take(VALUE self, VALUE transaction) {
  struct forwarder *forwarder = rb_check_typeddata(self, &forwarder_type);
  uint8_t query[GYRE_DNS_HEADER_BYTES + GYRE_DNS_NAME_BYTES + 4 + 11], name[GYRE_DNS_NAME_BYTES];
  struct gyre_dns_writer writer;
  struct gyre_dns_transaction *asked = gyre_dns_transaction_get(transaction);
  struct place *place = draw(forwarder);
  if (!place) return Qfalse;
  defer(asked);
  place->transaction = transaction;
  forwarder->taken++;
  (void)drawn_name(place, name);
  gyre_dns_writer_init(&writer, query, sizeof(query));
  (void)gyre_dns_put_question(&writer, name, asked->type, GYRE_DNS_IN);
  put_query(asked, &writer, gyre_dns_16(place->drawn));
  int error = gyre_datagram_send(forwarder->packets.fd, (const char *)query, writer.length, NULL);
  if (error == -EAGAIN) give_back(forwarder, place, NULL, 0, NULL);
  /* Another error may concern an earlier packet (udp(7)): the server is unreachable. */
  if (error && error != -EAGAIN) close_client(&forwarder->packets.client);
  return Qtrue;
}

void gyre_init_dns_packets(void) {
  gyre_forks_count();
  VALUE receiver_class = gyre_class(gyre_mDNS, "Receiver", NULL);
  rb_define_singleton_method(receiver_class, "new", receiver_new, 4);
  rb_define_method(receiver_class, "stop", receiver_stop, 0);
  rb_define_method(receiver_class, "paused=", receiver_set_paused, 1);
  rb_define_method(receiver_class, "waiting", receiver_waiting, 0);
  VALUE forwarder_class = gyre_class(gyre_mDNS, "Forwarder", NULL);
  rb_define_singleton_method(forwarder_class, "new", forwarder_new, 2);
  rb_define_method(forwarder_class, "take", forwarder_take, 1);
}
