/* Gyre::HTTP::NativeAcceptor: accepts HTTP connections (net/acceptor.h) and holds them, with their
 * limits. Contract: lib/gyre/http/server.rb. */
#include "http/exchange.h"
#include "net/net.h"

#include <ruby/io.h>

#define LINGERING_REFUSED_LIMIT 128

/* --- the object --- */

static void acceptor_mark(void *opaque) {
  struct gyre_http_acceptor *acceptor = opaque;
  rb_gc_mark(acceptor->self);
  if (acceptor->scheduler) rb_gc_mark(acceptor->scheduler->self);
  GYRE_MARK(acceptor->sockets, acceptor->contexts, acceptor->handler, acceptor->env.template,
            acceptor->env.usual.server_name, acceptor->env.usual.server_port, acceptor->env.usual.remote,
            acceptor->thread_calls.object, acceptor->upgraded, acceptor->exempt);
  /* Idle connections refer to no Ruby object. */
  GYRE_EACH(struct gyre_http_exchange, exchange, &acceptor->exchanges.active, node) {
    rb_gc_mark(exchange->handle);
    gyre_http_exchange_mark(exchange);
  }
}

/* Does not touch the loop, because the scheduler may already be freed. */
static void acceptor_free(void *opaque) {
  struct gyre_http_acceptor *acceptor = opaque;
  /* No handle of an active one is alive: it would mark this object. */
  gyre_list_splice(&acceptor->exchanges.spare, &acceptor->exchanges.active);
  GYRE_EACH_TAKEN(struct gyre_http_exchange, exchange, &acceptor->exchanges.spare, node) free(exchange);
  gyre_admission_forget(&acceptor->capacity.admission);
  GYRE_EACH_FIRST(struct gyre_http_connection, connection, &acceptor->connections, node) {
    gyre_http_connection_discard(connection);
  }
  gyre_http_buffer_free(&acceptor->output);
  gyre_acceptor_free(&acceptor->net);
  free(acceptor->scratch);
  free(acceptor->proxies.ranges);
  xfree(acceptor);
}

static size_t acceptor_size(const void *opaque) {
  const struct gyre_http_acceptor *acceptor = opaque;
  return sizeof(*acceptor) + acceptor->output.capacity + acceptor->net.open * sizeof(struct gyre_http_connection);
}

GYRE_TYPE(acceptor_type, "Gyre::HTTP::NativeAcceptor", acceptor_mark, acceptor_free, acceptor_size, 0);

static struct gyre_http_acceptor *acceptor_get(VALUE self) {
  struct gyre_http_acceptor *acceptor = rb_check_typeddata(self, &acceptor_type);
  if (!acceptor->scratch) rb_raise(rb_eRuntimeError, "not initialized");
  return acceptor;
}

/* --- calls from other threads (lib/gyre/http/thread_calls.rb) --- */

/* Passes to ThreadCalls the promises of requests whose clients have left. Ended requests are not in
 * the list: their promises are settled at their end. */
static void tell_departures(struct gyre_http_acceptor *acceptor) {
  GYRE_EACH_FIRST(struct gyre_http_exchange, exchange, &acceptor->leaving, departure.node) {
    rb_funcall(acceptor->thread_calls.object, rb_intern("depart"), 1, exchange->departure.promise);
    exchange->departure.told = true;
    gyre_list_remove(&exchange->departure.node);
  }
}

static VALUE start_thread_calls(VALUE argument) {
  struct gyre_http_acceptor *acceptor = (struct gyre_http_acceptor *)argument;
  tell_departures(acceptor);
  return rb_funcall(acceptor->thread_calls.object, rb_intern("start"), 1, acceptor->scheduler->self);
}

/* Runs the calls of other threads. After an exception, the next turn runs the remaining calls. */
static void run_thread_calls(struct gyre_scheduler *scheduler, struct gyre_post *post) {
  struct gyre_http_acceptor *acceptor = GYRE_CONTAINER(post, struct gyre_http_acceptor, thread_calls.post);
  int state = 0;
  rb_protect(start_thread_calls, (VALUE)acceptor, &state);
  if (!state) return;
  gyre_post(scheduler, post);
  rb_jump_tag(state);
}

/* May be called in any thread. */
static VALUE acceptor_post(VALUE self) {
  struct gyre_http_acceptor *acceptor = acceptor_get(self);
  if (gyre_list_empty(&acceptor->client.node) || acceptor->scheduler->closed) return Qnil;
  gyre_post(acceptor->scheduler, &acceptor->thread_calls.post);
  return Qnil;
}

static VALUE close_thread_calls(VALUE argument) {
  struct gyre_http_acceptor *acceptor = (struct gyre_http_acceptor *)argument;
  tell_departures(acceptor);
  return rb_funcall(acceptor->thread_calls.object, rb_intern("close"), 0);
}

/* Settles departures and ends the calls of other threads. Returns 0, or a state for rb_jump_tag. */
static int end_waits(struct gyre_http_acceptor *acceptor) {
  int state = 0;
  rb_protect(close_thread_calls, (VALUE)acceptor, &state);
  gyre_list_remove(&acceptor->thread_calls.post.node);
  return state;
}

static void quit_listening(struct gyre_http_acceptor *acceptor) {
  gyre_list_remove(&acceptor->keeper);
  gyre_acceptor_stop(&acceptor->net);
}

static void close_all(struct gyre_http_acceptor *acceptor) {
  quit_listening(acceptor);
  acceptor->draining = true;
  GYRE_EACH_FIRST(struct gyre_http_connection, connection, &acceptor->connections, node) {
    gyre_http_connection_end(connection, false);
  }
  gyre_admission_stop(&acceptor->capacity.admission);
}

static void closing(struct gyre_client *client) {
  struct gyre_http_acceptor *acceptor = GYRE_CONTAINER(client, struct gyre_http_acceptor, client);
  close_all(acceptor);
  if (end_waits(acceptor)) rb_set_errinfo(Qnil);
}

/* Runs in a forked child. Abandons the connections, because they belong to the parent process. */
static void forked(struct gyre_client *client) {
  struct gyre_http_acceptor *acceptor = GYRE_CONTAINER(client, struct gyre_http_acceptor, client);
  gyre_list_init(&acceptor->keeper);
  gyre_list_init(&acceptor->thread_calls.post.node);
  gyre_list_init(&acceptor->websockets.publishers);
  while (!gyre_list_empty(&acceptor->leaving)) gyre_list_remove(acceptor->leaving.next);
  gyre_acceptor_forget(&acceptor->net);
  gyre_admission_forget(&acceptor->capacity.admission);
  GYRE_EACH(struct gyre_http_exchange, exchange, &acceptor->exchanges.active, node) {
    exchange->reader = NULL;
    exchange->limit.timer.place = 0;
  }
  GYRE_EACH_FIRST(struct gyre_http_connection, connection, &acceptor->connections, node) {
    connection->watch.fd = -1;
    connection->timer.place = 0;
    connection->abandoned = true;
    gyre_http_connection_detach(connection);
    gyre_transport_abandon(&connection->transport);
    connection->state = GYRE_HTTP_CLOSED;
    gyre_http_connection_free(connection);
  }
}

static VALUE acceptor_allocate(VALUE class) {
  struct gyre_http_acceptor *acceptor;
  VALUE self = TypedData_Make_Struct(class, struct gyre_http_acceptor, &acceptor_type, acceptor);
  acceptor->self = self;
  gyre_list_init(&acceptor->thread_calls.post.node);
  gyre_list_init(&acceptor->client.node);
  gyre_list_init(&acceptor->keeper);
  gyre_list_init(&acceptor->connections);
  gyre_list_init(&acceptor->exchanges.active);
  gyre_list_init(&acceptor->leaving);
  gyre_list_init(&acceptor->exchanges.spare);
  gyre_list_init(&acceptor->websockets.unfinished);
  gyre_list_init(&acceptor->websockets.publishers);
  gyre_admission_init(&acceptor->capacity.admission, &acceptor->statistics);
  acceptor->upgraded = rb_hash_new(); /* last, because it may run the GC */
  rb_funcall(acceptor->upgraded, rb_intern("compare_by_identity"), 0);
  return self;
}

/* --- accepting --- */

static struct gyre_http_acceptor *acceptor_of(struct gyre_acceptor *net) {
  return GYRE_CONTAINER(net, struct gyre_http_acceptor, net);
}

/* True if the peer may send a PROXY header. On a Unix socket, or if no proxies are configured,
 * every peer may send a PROXY header. */
static bool is_proxy(const struct gyre_http_acceptor *acceptor, struct gyre_peer peer) {
  static const uint8_t mapped[12] = {[10] = 255, [11] = 255}; /* precedes IPv4 in IPv6: RFC 4291 */
  bool is_mapped = peer.family == AF_INET6 && memcmp(peer.address, mapped, sizeof(mapped)) == 0;
  const uint8_t *address = peer.address + (is_mapped ? sizeof(mapped) : 0);
  uint8_t family = is_mapped ? AF_INET : peer.family;
  if (acceptor->proxies.count == 0 || (family != AF_INET && family != AF_INET6)) return true;
  for (uint32_t i = 0; i < acceptor->proxies.count; i++) {
    if (gyre_proxy_in_range(&acceptor->proxies.ranges[i], family, address)) return true;
  }
  return false;
}

static int accept_connection(struct gyre_acceptor_listener *listener, int fd, const struct sockaddr_storage *peer) {
  struct gyre_http_acceptor *acceptor = acceptor_of(listener->acceptor);
  if (listener->proxy && !is_proxy(acceptor, gyre_http_peer(peer))) {
    acceptor->statistics.refused++;
    close(fd);
    return 0;
  }
  struct gyre_http_connection *connection = gyre_http_connection_new(listener, fd, peer);
  if (!connection) return -ENOMEM;
  connection->counted = true;
  gyre_acceptor_count(&acceptor->net, 1);
  gyre_http_connection_set_idle(connection, true);
  gyre_http_connection_deadline(connection, listener->tls || listener->proxy ? acceptor->limits.handshake_ns
                                                                             : acceptor->limits.first_byte_ns);
  return 0;
}

static void refuse_connection(struct gyre_acceptor_listener *listener, int fd, const struct sockaddr_storage *peer) {
  static char response[] =
      "HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\ncontent-length: 21\r\nretry-after: 1\r\n"
      "connection: close\r\n\r\ntoo many connections\n";
  const struct iovec piece = {response, sizeof(response) - 1};
  struct gyre_http_acceptor *acceptor = acceptor_of(listener->acceptor);
  acceptor->statistics.refused++;
  /* Closes a TLS connection without a response, because a response would cost a handshake. */
  struct gyre_http_connection *connection = listener->tls ? NULL : gyre_http_connection_new(listener, fd, peer);
  if (!connection) {
    close(fd);
    return;
  }
  acceptor->counts.lingering_refused++;
  connection->state = GYRE_HTTP_LINGERING;
  if (gyre_transport_sendv(&connection->transport, &piece, 1) > 0 &&
      acceptor->counts.lingering_refused <= LINGERING_REFUSED_LIMIT) {
    gyre_http_connection_linger(connection);
  } else {
    gyre_http_connection_close(connection, false);
  }
  if (connection->state == GYRE_HTTP_CLOSED) gyre_http_connection_free(connection);
}

static VALUE complain(VALUE self) {
  const struct gyre_http_acceptor *acceptor = RTYPEDDATA_DATA(self);
  VALUE message =
      rb_sprintf("cannot accept connections: %s; trying again in a second", strerror(acceptor->paused_error));
  return rb_funcall(acceptor->handler, rb_intern("error"), 1, message);
}

static VALUE start_complaint(VALUE self) { return gyre_spawn(acceptor_get(self)->scheduler, complain, self, Qnil); }

/* Logs in another fiber, because the logger may wait. */
static void accepting_paused(struct gyre_acceptor *net, int error) {
  struct gyre_http_acceptor *acceptor = acceptor_of(net);
  int state = 0;
  acceptor->paused_error = error;
  rb_protect(start_complaint, acceptor->self, &state);
  if (state) rb_set_errinfo(Qnil); /* no fiber could be made */
}

static const struct gyre_acceptor_operations acceptor_operations = {
    .accept = accept_connection, .refuse = refuse_connection, .paused = accepting_paused};

/* --- methods (contract: server.rb) --- */

/* Connections may still use former contexts: each counts a reference to its own. */
static VALUE acceptor_set_contexts(VALUE self, VALUE contexts) {
  struct gyre_http_acceptor *acceptor = acceptor_get(self);
  Check_Type(contexts, T_ARRAY);
  contexts = rb_ary_dup(contexts);
  uint32_t count = acceptor->net.listener_count;
  if (RARRAY_LEN(contexts) != count) rb_raise(rb_eArgError, "a context, or nil, is needed for each socket");
  for (uint32_t i = 0; i < count; i++) {
    VALUE context = rb_ary_entry(contexts, i);
    if (!NIL_P(context)) (void)gyre_tls_context_get(context);
  }
  for (uint32_t i = 0; i < count; i++) {
    VALUE context = rb_ary_entry(contexts, i);
    acceptor->net.listeners[i].tls = NIL_P(context) ? NULL : gyre_tls_context_get(context);
  }
  return acceptor->contexts = contexts;
}

static VALUE acceptor_initialize(VALUE self, VALUE sockets, VALUE handler, VALUE limits, VALUE template,
                                 VALUE contexts) {
  struct gyre_http_acceptor *acceptor = rb_check_typeddata(self, &acceptor_type);
  Check_Type(sockets, T_ARRAY);
  Check_Type(template, T_HASH);
  if (acceptor->scratch) rb_raise(rb_eRuntimeError, "initialized twice");
  gyre_http_limits_read(&acceptor->limits, limits);
  gyre_http_capacity_read(&acceptor->capacity, limits);
  acceptor->sockets = rb_ary_dup(sockets);
  acceptor->handler = handler;
  acceptor->env.template = template;
  gyre_http_env_prepare(acceptor);

  long count = RARRAY_LEN(sockets);
  acceptor->scratch = gyre_http_protocols.http1->make_scratch(&acceptor->limits);
  if (!acceptor->scratch || gyre_acceptor_init(&acceptor->net, &acceptor_operations, (size_t)count) < 0) rb_memerror();
  acceptor->net.open_limit = acceptor->limits.connections;
  for (long i = 0; i < count; i++)
    gyre_acceptor_add(&acceptor->net, rb_io_descriptor(rb_io_get_io(RARRAY_AREF(acceptor->sockets, i))), NULL);
  acceptor_set_contexts(self, contexts);
  return self;
}

/* `versions`: an Integer for each socket; `ranges`: a String of struct gyre_proxy_range. */
static VALUE acceptor_expect_proxies(VALUE self, VALUE versions, VALUE ranges) {
  struct gyre_http_acceptor *acceptor = acceptor_get(self);
  Check_Type(versions, T_ARRAY);
  StringValue(ranges);
  size_t size = sizeof(struct gyre_proxy_range), count = (size_t)RSTRING_LEN(ranges) / size;
  if (RARRAY_LEN(versions) != acceptor->net.listener_count || (size_t)RSTRING_LEN(ranges) != count * size)
    rb_raise(rb_eArgError, "versions are needed for each socket, and whole ranges");
  struct gyre_proxy_range *proxies = calloc(count + 1, size);
  if (!proxies) rb_memerror();
  memcpy(proxies, RSTRING_PTR(ranges), count * size);
  free(acceptor->proxies.ranges);
  acceptor->proxies.ranges = proxies;
  acceptor->proxies.count = (uint32_t)count;
  for (long i = 0; i < RARRAY_LEN(versions); i++) {
    acceptor->net.listeners[i].proxy = (uint8_t)(NUM2UINT(rb_ary_entry(versions, i)) & (GYRE_PROXY_V1 | GYRE_PROXY_V2));
  }
  return self;
}

static VALUE acceptor_configure(VALUE self, VALUE shared, VALUE cancels, VALUE connect, VALUE exempt) {
  struct gyre_http_acceptor *acceptor = acceptor_get(self);
  acceptor->net.shared = RTEST(shared);
  acceptor->cancel_when_gone = RTEST(cancels);
  acceptor->limits.http2.extended_connect = RTEST(connect);
  acceptor->exempt = exempt;
  return self;
}

static VALUE acceptor_full_p(VALUE self) {
  return gyre_admission_is_full(&acceptor_get(self)->capacity.admission) ? Qtrue : Qfalse;
}

static VALUE acceptor_set_away(VALUE self, VALUE count) {
  struct gyre_acceptor *acceptor = &acceptor_get(self)->net;
  acceptor->away = NUM2UINT(count);
  gyre_acceptor_count(acceptor, 0);
  return count;
}

static VALUE acceptor_start(VALUE self) {
  struct gyre_http_acceptor *acceptor = acceptor_get(self);
  if (acceptor->scheduler) rb_raise(rb_eRuntimeError, "started already");
  VALUE thread_calls = rb_const_get(rb_const_get(gyre_mGyre, rb_intern("HTTP")), rb_intern("ThreadCalls"));
  acceptor->thread_calls.object = rb_class_new_instance(1, &self, thread_calls);
  acceptor->thread_calls.post.run = run_thread_calls;
  struct gyre_scheduler *scheduler = acceptor->scheduler = gyre_scheduler_current();
  gyre_thread_check(scheduler);
  gyre_http_route_look();
  gyre_list_append(&scheduler->clients, &acceptor->client.node);
  acceptor->client.self = self;
  acceptor->client.closing = closing;
  acceptor->client.forked = forked;
  gyre_list_append(&scheduler->keepers, &acceptor->keeper);
  acceptor->capacity.admission.loop = &scheduler->loop;
  int error = gyre_acceptor_start(&acceptor->net, &scheduler->loop);
  if (error < 0) {
    quit_listening(acceptor);
    rb_syserr_fail(-error, "watch a listening socket");
  }
  return self;
}

static VALUE acceptor_stop(VALUE self) {
  struct gyre_http_acceptor *acceptor = acceptor_get(self);
  gyre_acceptor_finish(&acceptor->net);
  quit_listening(acceptor);
  return self;
}

static VALUE acceptor_drain(VALUE self) {
  struct gyre_http_acceptor *acceptor = acceptor_get(self);
  acceptor_stop(self);
  acceptor->draining = true;
  if (!acceptor->scheduler || acceptor->scheduler->closed) return self;
  GYRE_EACH(struct gyre_http_connection, connection, &acceptor->connections, node) {
    connection->protocol->drain(connection);
  }
  return self;
}

static VALUE acceptor_interrupt(VALUE self, VALUE exception) {
  struct gyre_http_acceptor *acceptor = acceptor_get(self);
  long count = 0;
  GYRE_EACH(struct gyre_http_exchange, exchange, &acceptor->exchanges.active, node) {
    if (NIL_P(exchange->fiber)) continue;
    gyre_interrupt_fiber(acceptor->scheduler, exchange->fiber, exception);
    count++;
  }
  VALUE upgraded = rb_funcall(acceptor->upgraded, rb_intern("keys"), 0);
  for (long i = 0; i < RARRAY_LEN(upgraded); i++) {
    if (RTEST(rb_funcall(RARRAY_AREF(upgraded, i), rb_intern("interrupt"), 1, exception))) count++;
  }
  return LONG2NUM(count);
}

/* Leaves the loop once all connections have ended, so that the loop does not keep acceptor, handler
 * and app alive. Later calls of other threads raise. Returns 0, or a state for rb_jump_tag. */
static int leave_scheduler(struct gyre_http_acceptor *acceptor) {
  if (!gyre_list_empty(&acceptor->exchanges.active) || !gyre_list_empty(&acceptor->connections)) return 0;
  if (RHASH_SIZE(acceptor->upgraded) || gyre_thread_is_foreign(acceptor->scheduler)) return 0;
  int state = end_waits(acceptor);
  gyre_list_remove(&acceptor->client.node);
  return state;
}

void gyre_http_acceptor_settle(struct gyre_http_acceptor *acceptor) {
  if (!acceptor->draining || acceptor->capacity.admission.loop || acceptor->scheduler->closed) return;
  if (leave_scheduler(acceptor)) rb_set_errinfo(Qnil);
}

static VALUE acceptor_close(VALUE self) {
  struct gyre_http_acceptor *acceptor = acceptor_get(self);
  bool open = acceptor->scheduler && !acceptor->scheduler->closed;
  close_all(acceptor);
  if (!open) return self;
  int state = leave_scheduler(acceptor);
  if (state) rb_jump_tag(state);
  return self;
}

/* Maps the workers' shared counts. Returns false if it fails: each then accepts independently. */
static VALUE acceptor_map_shares(VALUE class) { return gyre_shares_map() == 0 ? Qtrue : Qfalse; }

static VALUE acceptor_set_place(VALUE class, VALUE place) {
  gyre_shares_place(NUM2UINT(place));
  return place;
}

static VALUE acceptor_stats(VALUE self) {
  struct gyre_http_acceptor *acceptor = acceptor_get(self);
  VALUE stats = rb_hash_new();
#define STAT(name, value) rb_hash_aset(stats, ID2SYM(rb_intern(name)), ULL2NUM((unsigned long long)(value)))
  STAT("connections", acceptor->net.open);
  STAT("idle", acceptor->counts.idle);
  STAT("running", acceptor->counts.running);
  STAT("accepted", acceptor->net.accepted);
  STAT("upgraded", RHASH_SIZE(acceptor->upgraded));
  STAT("waiting", acceptor->capacity.admission.waiting_count);
#define COUNTER(name) STAT(#name, acceptor->statistics.name);
  GYRE_HTTP_COUNTERS(COUNTER)
  return stats;
}

/* Returns the use of each budget, for metrics and tests. */
static VALUE acceptor_used(VALUE self) {
  const struct gyre_http_capacity *capacity = &acceptor_get(self)->capacity;
  VALUE used = rb_hash_new();
  rb_hash_aset(used, ID2SYM(rb_intern("heads")), LL2NUM(capacity->heads.used));
  rb_hash_aset(used, ID2SYM(rb_intern("input")), LL2NUM(capacity->input.used));
  rb_hash_aset(used, ID2SYM(rb_intern("output")), LL2NUM(capacity->output.used));
  rb_hash_aset(used, ID2SYM(rb_intern("files")), LL2NUM(capacity->files.used));
  rb_hash_aset(used, ID2SYM(rb_intern("places")), UINT2NUM(capacity->admission.running));
  return used;
}

/* --- places for other work of the app, such as actions of cables --- */

/* Not on the fiber's stack, which a child of another thread's fork may free before the acceptor. */
struct work {
  struct gyre_admission_waiter waiter;
  struct gyre_wait *wait;
  bool placed;
};

static void work_decided(struct gyre_admission_waiter *waiter, bool placed) {
  struct work *work = GYRE_CONTAINER(waiter, struct work, waiter);
  work->placed = placed;
  gyre_wake(work->wait->parked.scheduler, &work->wait->parked);
}

/* Waits for a place in the queue of the requests. Returns false if the queue is full, after
 * queue_timeout, and in another thread. */
static VALUE acceptor_take_place(VALUE self) {
  struct gyre_http_acceptor *acceptor = acceptor_get(self);
  struct gyre_admission *admission = &acceptor->capacity.admission;
  if (!admission->loop || gyre_thread_is_foreign(acceptor->scheduler)) return Qfalse;
  if (gyre_admission_has_place(admission)) {
    gyre_admission_take(admission);
    return Qtrue;
  }
  struct work *work = calloc(1, sizeof(*work));
  if (!work) rb_memerror();
  struct gyre_wait wait;
  int state = 0;
  gyre_list_init(&work->waiter.node);
  work->waiter.decided = work_decided;
  work->wait = &wait;
  gyre_wait_begin(acceptor->scheduler, &wait, self);
  if (gyre_admission_enter(admission, &work->waiter)) rb_protect(gyre_wait_body, (VALUE)&wait, &state);
  gyre_wait_end(&wait);
  gyre_admission_withdraw(admission, &work->waiter);
  bool placed = work->placed;
  free(work);
  if (state && placed) gyre_admission_leave(admission);
  if (state) rb_jump_tag(state);
  RB_GC_GUARD(self);
  return placed ? Qtrue : Qfalse;
}

static VALUE acceptor_leave_place(VALUE self) {
  gyre_admission_leave(&acceptor_get(self)->capacity.admission);
  return Qnil;
}

/* --- statistics --- */

static void set_number(VALUE hash, const char *name, uint64_t number) {
  rb_hash_aset(hash, rb_str_new_cstr(name), ULL2NUM((unsigned long long)number));
}

static VALUE histogram_hash(const struct gyre_http_histogram *histogram) {
  VALUE hash = rb_hash_new(), list = rb_ary_new_capa(GYRE_HTTP_DURATIONS + 1);
  for (int i = 0; i <= GYRE_HTTP_DURATIONS; i++) rb_ary_push(list, ULL2NUM((unsigned long long)histogram->counts[i]));
  rb_hash_aset(hash, rb_str_new_cstr("counts"), list);
  rb_hash_aset(hash, rb_str_new_cstr("sum_s"), DBL2NUM((double)histogram->sum_ns / 1e9));
  return hash;
}

static VALUE acceptor_measurements(VALUE self) {
  static const char *const classes[GYRE_HTTP_STATUS_CLASSES] = {"none", "1xx", "2xx", "3xx", "4xx", "5xx"};
  struct gyre_http_acceptor *acceptor = acceptor_get(self);
  struct gyre_http_statistics *statistics = &acceptor->statistics;
  GYRE_EACH(struct gyre_http_connection, connection, &acceptor->connections, node) {
    if (!connection->inner) gyre_http_statistics_take_bytes(statistics, &connection->transport);
  }
  VALUE hash = rb_hash_new(), responses = rb_hash_new();
  for (int i = 0; i < GYRE_HTTP_STATUS_CLASSES; i++) set_number(responses, classes[i], statistics->responses[i]);
  rb_hash_aset(hash, rb_str_new_cstr("responses"), responses);
#define HISTOGRAM(name) rb_hash_aset(hash, rb_str_new_cstr(#name), histogram_hash(&statistics->name));
  GYRE_HTTP_HISTOGRAMS(HISTOGRAM)
  set_number(hash, "received_bytes", statistics->received_bytes);
  set_number(hash, "sent_bytes", statistics->sent_bytes);
  if (acceptor->scheduler && !acceptor->scheduler->closed) {
    const struct gyre_lag *lag = &acceptor->scheduler->loop.lag;
    struct gyre_http_histogram lags = {.sum_ns = lag->sum_ns};
    uint64_t below = 0;
    for (int i = 0; i < GYRE_HTTP_DURATIONS; i++) {
      uint64_t up_to = gyre_lag_up_to(lag, gyre_http_duration_bounds_ns[i]);
      lags.counts[i] = up_to - below;
      below = up_to;
    }
    lags.counts[GYRE_HTTP_DURATIONS] = lag->total - below;
    rb_hash_aset(hash, rb_str_new_cstr("lag"), histogram_hash(&lags));
  }
  return hash;
}

/* Returns env and seconds of the oldest requests; the active list is ordered by their start. */
static VALUE acceptor_oldest(VALUE self, VALUE limit) {
  struct gyre_http_acceptor *acceptor = acceptor_get(self);
  long most = NUM2LONG(limit);
  VALUE list = rb_ary_new();
  if (!acceptor->scheduler || acceptor->scheduler->closed) return list;
  int64_t now_ns = gyre_loop_now(&acceptor->scheduler->loop);
  GYRE_EACH(struct gyre_http_exchange, exchange, &acceptor->exchanges.active, node) {
    if (RARRAY_LEN(list) >= most) break;
    if (exchange->measured || NIL_P(exchange->env)) continue;
    rb_ary_push(list, rb_assoc_new(exchange->env, DBL2NUM((double)(now_ns - exchange->began_ns) / 1e9)));
  }
  return list;
}

static VALUE duration_bounds(VALUE class) {
  VALUE list = rb_ary_new_capa(GYRE_HTTP_DURATIONS);
  for (int i = 0; i < GYRE_HTTP_DURATIONS; i++)
    rb_ary_push(list, DBL2NUM((double)gyre_http_duration_bounds_ns[i] / 1e9));
  return list;
}

void gyre_init_http(void) {
  VALUE class = gyre_class(rb_define_module_under(gyre_mGyre, "HTTP"), "NativeAcceptor", acceptor_allocate);
  rb_define_method(class, "initialize", acceptor_initialize, 5);
  rb_define_method(class, "configure", acceptor_configure, 4);
  rb_define_method(class, "contexts=", acceptor_set_contexts, 1);
  rb_define_singleton_method(class, "map_shares", acceptor_map_shares, 0);
  rb_define_singleton_method(class, "place=", acceptor_set_place, 1);
  rb_define_method(class, "start", acceptor_start, 0);
  rb_define_method(class, "full?", acceptor_full_p, 0);
  rb_define_method(class, "take_place", acceptor_take_place, 0);
  rb_define_method(class, "leave_place", acceptor_leave_place, 0);
  rb_define_method(class, "away=", acceptor_set_away, 1);
  rb_define_method(class, "stop", acceptor_stop, 0);
  rb_define_method(class, "drain", acceptor_drain, 0);
  rb_define_method(class, "interrupt", acceptor_interrupt, 1);
  rb_define_method(class, "close", acceptor_close, 0);
  rb_define_method(class, "stats", acceptor_stats, 0);
  rb_define_method(class, "used", acceptor_used, 0);
  rb_define_method(class, "post", acceptor_post, 0);
  rb_define_method(class, "measurements", acceptor_measurements, 0);
  rb_define_method(class, "expect_proxies", acceptor_expect_proxies, 2);
  rb_define_method(class, "oldest", acceptor_oldest, 1);
  rb_define_singleton_method(class, "duration_bounds", duration_bounds, 0);
}
