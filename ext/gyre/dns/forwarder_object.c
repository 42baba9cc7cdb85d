/* Gyre::DNS::Forwarder: a connected UDP socket on a loop. Passes questions on to a name server
 * without fibers, each with a random id and case. Made by lib/gyre/dns/upstream.rb. Takes only
 * whole answers: rules get the question again after anything else. */
#include "dns/dns.h"
#include "fiber/scheduler.h"
#include "loop/forks.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define PLACES 1024    /* by id; at most half of them are taken, as random bytes are used up before */
#define DRAWN_BYTES 10 /* for a question: its id, and the case of its letters */
#define TICK_NS INT64_C(1000000000)
#define TICKS_TAKING 2 /* before another port is used */
#define TICKS_OPEN 7   /* so that the last question has 5 s for its reply */

struct place {
  VALUE transaction; /* Qfalse: free */
  uint8_t drawn[DRAWN_BYTES];
};

struct forwarder {
  VALUE self, random;               /* a String, used up to `next` */
  struct gyre_scheduler *scheduler; /* NULL: closed */
  struct gyre_client client;
  struct gyre_watch watch;
  struct gyre_timer tick;
  int fd;
  unsigned ticks, next, taken;
  struct place places[PLACES];
};

static void forwarder_mark(void *opaque) {
  const struct forwarder *forwarder = opaque;
  GYRE_MARK(forwarder->random, forwarder->self);
  for (int i = 0; i < PLACES && forwarder->taken; i++) rb_gc_mark(forwarder->places[i].transaction);
}

/* Without write barriers: places change with every question. */
GYRE_TYPE(forwarder_type, "Gyre::DNS::Forwarder", forwarder_mark, RUBY_DEFAULT_FREE, NULL, 0);

static struct forwarder *get(VALUE self) { return rb_check_typeddata(self, &forwarder_type); }

static void give_back(struct forwarder *forwarder, struct place *place, const char *reply, size_t length) {
  VALUE transaction = place->transaction;
  place->transaction = Qfalse;
  forwarder->taken--;
  gyre_dns_receiver_answer(transaction, reply, length);
  RB_GC_GUARD(transaction);
}

static void close_client(struct gyre_client *client) {
  struct forwarder *forwarder = GYRE_CONTAINER(client, struct forwarder, client);
  struct gyre_loop *loop = &forwarder->scheduler->loop;
  VALUE self = forwarder->self; /* the client kept it */
  if (forwarder->client.forks == gyre_forks) {
    gyre_timers_cancel(&loop->timers, &forwarder->tick);
    gyre_loop_unwatch(loop, &forwarder->watch);
    gyre_loop_forget_unwatched(loop, forwarder->fd);
  }
  close(forwarder->fd);
  forwarder->scheduler = NULL;
  gyre_list_remove(&client->node);
  for (int i = 0; i < PLACES && forwarder->taken; i++)
    if (forwarder->places[i].transaction) give_back(forwarder, &forwarder->places[i], NULL, 0);
  RB_GC_GUARD(self);
}

static bool is_old(const struct forwarder *forwarder) {
  return forwarder->ticks >= TICKS_TAKING || forwarder->next + DRAWN_BYTES > (unsigned)RSTRING_LEN(forwarder->random);
}

static void on_tick(struct gyre_timer *timer, void *loop) {
  struct forwarder *forwarder = GYRE_CONTAINER(timer, struct forwarder, tick);
  if (++forwarder->ticks == TICKS_OPEN || (forwarder->taken == 0 && is_old(forwarder)) ||
      gyre_timers_arm(&((struct gyre_loop *)loop)->timers, timer, gyre_loop_now(loop) + TICK_NS) < 0)
    close_client(&forwarder->client);
}

/* Reads the question's name, and changes its letters' case as drawn. */
static size_t drawn_name(const struct place *place, uint8_t name[GYRE_DNS_NAME_BYTES]) {
  size_t length = gyre_dns_transaction_read_name(place->transaction, name);
  for (size_t i = 0; i < length; i++) { /* the lengths of labels are below 'A' */
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
  bool failed = rcode == 1 || rcode == 2 || rcode == 4 || rcode == 5; /* another server may know it */
  return !failed && reply.type == gyre_dns_transaction_get(place->transaction)->type && reply.class == GYRE_DNS_IN &&
         reply.name_length == drawn_name(place, name) && memcmp(reply.name, name, reply.name_length) == 0;
}

/* Ignores packets with another id. Rules ask again, from another port, after any but an answer. */
static void take(struct forwarder *forwarder, const struct gyre_datagram_packet *packet) {
  if (packet->length < GYRE_DNS_HEADER_BYTES) return;
  struct place *place = &forwarder->places[gyre_dns_16((const uint8_t *)packet->bytes) % PLACES];
  if (!place->transaction || memcmp(packet->bytes, place->drawn, 2) != 0) return;
  give_back(forwarder, place, is_answer(place, packet) ? packet->bytes : NULL, packet->length);
}

static void on_readable(struct gyre_loop *loop, struct gyre_watch *watch, unsigned ready) {
  struct forwarder *forwarder = GYRE_CONTAINER(watch, struct forwarder, watch);
  struct gyre_datagram_packet packets[GYRE_DATAGRAM_BATCH];
  int count = gyre_datagram_receive(forwarder->fd, GYRE_DATAGRAM_QUEUED, packets, GYRE_DATAGRAM_BATCH);
  for (int i = 0; i < count; i++) take(forwarder, &packets[i]);
  if ((count < 0 && count != -EAGAIN) || (forwarder->taken == 0 && is_old(forwarder)))
    close_client(&forwarder->client); /* an error concerns the server: it is unreachable */
  else if (count == GYRE_DATAGRAM_BATCH)
    gyre_loop_report_again(loop, watch, GYRE_READABLE);
  else
    gyre_loop_drained(loop, forwarder->fd, GYRE_READABLE);
}

/* Opens in this thread's scheduler. `sockaddr`: the server's; `random`: DRAWN_BYTES for each
 * question. Raises SystemCallError. */
static VALUE forwarder_new(VALUE class, VALUE sockaddr, VALUE random) {
  struct gyre_scheduler *scheduler = gyre_scheduler_current();
  struct forwarder *forwarder;
  StringValue(sockaddr);
  StringValue(random);
  if (RSTRING_LEN(sockaddr) < (long)sizeof(sa_family_t)) rb_raise(rb_eArgError, "cannot open");
  VALUE self = TypedData_Make_Struct(class, struct forwarder, &forwarder_type, forwarder);
  forwarder->self = self;
  forwarder->random = rb_str_new_frozen(random);
  forwarder->client = (struct gyre_client){.self = self, .closing = close_client, .forked = close_client};
  forwarder->client.forks = gyre_forks;
  forwarder->watch.fd = -1;
  forwarder->watch.ready = on_readable;
  forwarder->tick.fire = on_tick;
  const struct sockaddr *address = (const struct sockaddr *)RSTRING_PTR(sockaddr);
  int fd = forwarder->fd = socket(address->sa_family, SOCK_DGRAM, 0), error = 0;
  if (fd < 0) rb_sys_fail("open a UDP socket");
  rb_fd_fix_cloexec(fd);
  if (connect(fd, address, (socklen_t)RSTRING_LEN(sockaddr)) < 0) error = -errno;
  if (!error) error = gyre_loop_watch(&scheduler->loop, &forwarder->watch, fd, GYRE_READABLE | GYRE_STANDING);
  if (!error)
    error = gyre_timers_arm(&scheduler->loop.timers, &forwarder->tick, gyre_loop_now(&scheduler->loop) + TICK_NS);
  if (error) {
    gyre_loop_unwatch(&scheduler->loop, &forwarder->watch);
    close(fd);
    rb_syserr_fail(-error, "ask a name server");
  }
  forwarder->scheduler = scheduler;
  gyre_list_append(&scheduler->clients, &forwarder->client.node);
  return self;
}

/* Draws until a place is free. NULL: another forwarder's turn. */
static struct place *draw(struct forwarder *forwarder) {
  while (forwarder->scheduler && forwarder->client.forks == gyre_forks && !is_old(forwarder)) {
    const char *drawn = RSTRING_PTR(forwarder->random) + forwarder->next;
    struct place *place = &forwarder->places[gyre_dns_16((const uint8_t *)drawn) % PLACES];
    forwarder->next += DRAWN_BYTES;
    if (place->transaction) continue;
    memcpy(place->drawn, drawn, DRAWN_BYTES);
    return place;
  }
  return NULL;
}

/* Passes on a deferrable transaction's question: its response leaves without the caller. False:
 * this one takes no more questions. */
static VALUE forwarder_take(VALUE self, VALUE transaction) {
  struct forwarder *forwarder = get(self);
  uint8_t query[GYRE_DNS_HEADER_BYTES + GYRE_DNS_NAME_BYTES + 4 + 11], name[GYRE_DNS_NAME_BYTES];
  struct gyre_dns_writer writer;
  struct gyre_dns_transaction *asked = gyre_dns_transaction_get(transaction);
  struct place *place = draw(forwarder);
  if (!place) return Qfalse;
  gyre_dns_receiver_defer(asked);
  place->transaction = transaction;
  forwarder->taken++;
  (void)drawn_name(place, name);
  gyre_dns_writer_init(&writer, query, sizeof(query));
  (void)gyre_dns_put_question(&writer, name, asked->type, GYRE_DNS_IN);
  gyre_dns_transaction_put_query(transaction, &writer, gyre_dns_16(place->drawn));
  int error = gyre_datagram_send(forwarder->fd, (const char *)query, writer.length, NULL);
  if (error == -EAGAIN) give_back(forwarder, place, NULL, 0);
  if (error && error != -EAGAIN) close_client(&forwarder->client); /* perhaps of an earlier packet (udp(7)) */
  return Qtrue;
}

void gyre_init_dns_forwarder(void) {
  gyre_forks_count();
  VALUE class = rb_define_class_under(gyre_mDNS, "Forwarder", rb_cObject);
  rb_undef_alloc_func(class);
  rb_define_singleton_method(class, "new", forwarder_new, 2);
  rb_define_method(class, "take", forwarder_take, 1);
}
