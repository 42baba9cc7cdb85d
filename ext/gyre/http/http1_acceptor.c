/*
 * Gyre::HTTP::NativeAcceptor: listening sockets on the loop, all connections that came from them, and
 * their limits. The contract stands in lib/gyre/http/server.rb. Accepting holds no fiber.
 */
#include "feature.h"
#include "http/http1.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <ruby/io.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ACCEPT_BUDGET 256
#define QUEUE_LENGTH 4096 /* of connections that wait to be accepted: Gyre::Endpoint::BACKLOG */
#define LINGERING_REFUSED_LIMIT 128
#define NEW_NS INT64_C(250000000) /* what a connection that has sent nothing yet gets at a stop */
#define PAUSE_NS INT64_C(1000000000)

static ID id_error, id_call, id_start, id_close;

/* --- the object --- */

static void acceptor_mark(void *opaque) {
  struct gyre_http1_acceptor *acceptor = opaque;
  rb_gc_mark(acceptor->self);
  if (acceptor->scheduler) rb_gc_mark(acceptor->scheduler->self);
  rb_gc_mark(acceptor->sockets);
  rb_gc_mark(acceptor->handler);
  rb_gc_mark(acceptor->template);
  rb_gc_mark(acceptor->usual.server_name);
  rb_gc_mark(acceptor->usual.server_port);
  rb_gc_mark(acceptor->usual.remote);
  rb_gc_mark(acceptor->handovers);
  /* Idle connections hold no object, so ten thousand of them cost the GC nothing. */
  for (struct gyre_list *node = acceptor->active.next; node != &acceptor->active; node = node->next) {
    struct gyre_http1_connection *connection = GYRE_CONTAINER(node, struct gyre_http1_connection, active);
    rb_gc_mark(connection->handle);
    rb_gc_mark(connection->fiber);
    rb_gc_mark(connection->env);
    rb_gc_mark(connection->trailers);
  }
}

/* The scheduler may be gone already: nothing of the loop is touched. */
static void acceptor_free(void *opaque) {
  struct gyre_http1_acceptor *acceptor = opaque;
  while (!gyre_list_empty(&acceptor->connections)) {
    struct gyre_http1_connection *connection =
        GYRE_CONTAINER(acceptor->connections.next, struct gyre_http1_connection, node);
    gyre_list_remove(&connection->node);
    if (connection->fd >= 0) close(connection->fd);
    connection->handler = false;
    gyre_http1_connection_free(connection);
  }
  gyre_http1_buffer_free(&acceptor->output);
  free(acceptor->listeners);
  free(acceptor->fields);
  xfree(acceptor);
}

static size_t acceptor_size(const void *opaque) {
  const struct gyre_http1_acceptor *acceptor = opaque;
  return sizeof(*acceptor) + acceptor->output.capacity + acceptor->open * sizeof(struct gyre_http1_connection);
}

static const rb_data_type_t acceptor_type = {
    .wrap_struct_name = "Gyre::HTTP::NativeAcceptor",
    .function = {.dmark = acceptor_mark, .dfree = acceptor_free, .dsize = acceptor_size},
};

static void mark_client(struct gyre_client *client) {
  rb_gc_mark(GYRE_CONTAINER(client, struct gyre_http1_acceptor, client)->self);
}

static struct gyre_http1_acceptor *acceptor_get(VALUE self) {
  struct gyre_http1_acceptor *acceptor;
  TypedData_Get_Struct(self, struct gyre_http1_acceptor, &acceptor_type, acceptor);
  return acceptor;
}

/* --- calls from other threads (lib/gyre/http/handovers.rb) --- */

bool gyre_http1_is_outside(VALUE self) {
  const struct gyre_http1_connection *connection = gyre_http1_connection_get(self);
  return connection && gyre_thread_is_foreign(connection->acceptor->scheduler);
}

VALUE gyre_http1_hand_over(VALUE self, const char *method, int count, const VALUE *arguments) {
  VALUE handovers = gyre_http1_connection_get(self)->acceptor->handovers;
  return rb_funcall(handovers, id_call, 3, self, ID2SYM(rb_intern(method)), rb_ary_new_from_values(count, arguments));
}

struct starting {
  VALUE handovers, scheduler;
};

static VALUE start_handovers(VALUE argument) {
  const struct starting *starting = (const struct starting *)argument;
  return rb_funcall(starting->handovers, id_start, 1, starting->scheduler);
}

/* What is left when something else is raised here is started in the next turn. */
static void run_handovers(struct gyre_scheduler *scheduler, struct gyre_post *post) {
  struct gyre_http1_acceptor *acceptor = GYRE_CONTAINER(post, struct gyre_http1_acceptor, handover);
  struct starting starting = {acceptor->handovers, scheduler->self};
  int state = 0;
  rb_protect(start_handovers, (VALUE)&starting, &state);
  if (!state) return;
  gyre_post(scheduler, post);
  rb_jump_tag(state);
}

/* For Handovers: some are to be started. From any thread. */
static VALUE acceptor_post(VALUE self) {
  struct gyre_http1_acceptor *acceptor = acceptor_get(self);
  if (gyre_list_empty(&acceptor->client.node) || acceptor->scheduler->closed) return Qnil;
  gyre_post(acceptor->scheduler, &acceptor->handover);
  return Qnil;
}

static VALUE close_handovers(VALUE handovers) { return NIL_P(handovers) ? Qnil : rb_funcall(handovers, id_close, 0); }

static void close_connections(struct gyre_http1_acceptor *acceptor, bool only_idle);

static void closing(struct gyre_client *client) {
  struct gyre_http1_acceptor *acceptor = GYRE_CONTAINER(client, struct gyre_http1_acceptor, client);
  acceptor->listening = false;
  acceptor->draining = true;
  gyre_list_remove(&acceptor->keeper);
  close_connections(acceptor, false);
  int state = 0;
  rb_protect(close_handovers, acceptor->handovers, &state);
  if (state) rb_set_errinfo(Qnil);
}

/* A forked child has the parent's connections open, but not on its loop: it leaves them to the parent. */
static void forked(struct gyre_client *client) {
  struct gyre_http1_acceptor *acceptor = GYRE_CONTAINER(client, struct gyre_http1_acceptor, client);
  gyre_list_init(&acceptor->keeper);
  gyre_list_init(&acceptor->handover.node);
  acceptor->pause.place = 0;
  acceptor->listening = false;
  for (long i = 0; i < acceptor->listener_count; i++) acceptor->listeners[i].watch.fd = -1;
  while (!gyre_list_empty(&acceptor->connections)) {
    struct gyre_http1_connection *connection =
        GYRE_CONTAINER(acceptor->connections.next, struct gyre_http1_connection, node);
    connection->watch.fd = -1;
    connection->timer.place = 0;
    connection->reader = NULL;
    gyre_http1_connection_close(connection, false);
    gyre_http1_connection_free(connection);
  }
}

static VALUE acceptor_allocate(VALUE class) {
  struct gyre_http1_acceptor *acceptor;
  VALUE self = TypedData_Make_Struct(class, struct gyre_http1_acceptor, &acceptor_type, acceptor);
  acceptor->self = self;
  acceptor->sockets = acceptor->handler = acceptor->template = acceptor->handovers = Qnil;
  acceptor->usual.server_name = acceptor->usual.server_port = acceptor->usual.remote = Qnil;
  gyre_list_init(&acceptor->handover.node);
  gyre_list_init(&acceptor->client.node);
  gyre_list_init(&acceptor->keeper);
  gyre_list_init(&acceptor->connections);
  gyre_list_init(&acceptor->active);
  return self;
}

/* --- accepting --- */

static int accept_one(int fd, struct sockaddr_storage *address) {
  socklen_t length = sizeof(*address);
  memset(address, 0, sizeof(address->ss_family) + 32);
#ifdef GYRE_HAVE_ACCEPT4
  int accepted = accept4(fd, (struct sockaddr *)address, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
#else
  int accepted = accept(fd, (struct sockaddr *)address, &length);
  if (accepted >= 0) {
    fcntl(accepted, F_SETFL, fcntl(accepted, F_GETFL) | O_NONBLOCK);
    fcntl(accepted, F_SETFD, FD_CLOEXEC);
  }
#endif
  return accepted;
}

static void refuse_connection(struct gyre_http1_acceptor *acceptor, int fd, const struct sockaddr_storage *address) {
  static const char answer[] =
      "HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\ncontent-length: 21\r\nretry-after: 1\r\n"
      "connection: close\r\n\r\ntoo many connections\n";
  acceptor->refused++;
  ssize_t sent = send(fd, answer, sizeof(answer) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
  struct gyre_http1_connection *connection = NULL;
  if (sent > 0 && acceptor->lingering_refused < LINGERING_REFUSED_LIMIT)
    connection = gyre_http1_connection_new(acceptor, fd, address);
  if (!connection) {
    close(fd);
    return;
  }
  acceptor->lingering_refused++;
  connection->state = GYRE_HTTP1_LINGERING;
  gyre_http1_connection_linger(connection);
  if (connection->state == GYRE_HTTP1_CLOSED) gyre_http1_connection_free(connection);
}

static void resume_accepting(struct gyre_timer *timer, void *context) {
  struct gyre_http1_acceptor *acceptor = GYRE_CONTAINER(timer, struct gyre_http1_acceptor, pause);
  for (long i = 0; i < acceptor->listener_count && acceptor->listening; i++) {
    struct gyre_http1_listener *listener = &acceptor->listeners[i];
    if (listener->watch.fd >= 0 ||
        gyre_loop_watch(context, &listener->watch, listener->fd, GYRE_READABLE | GYRE_STANDING) == 0)
      continue;
    (void)gyre_timers_arm(&((struct gyre_loop *)context)->timers, timer, gyre_loop_now(context) + PAUSE_NS);
  }
}

struct complaint {
  struct gyre_http1_acceptor *acceptor;
  int error;
};

static VALUE complain(VALUE argument) {
  struct complaint *complaint = (struct complaint *)argument;
  VALUE message = rb_sprintf("cannot accept connections: %s; trying again in a second", strerror(complaint->error));
  return rb_funcall(complaint->acceptor->handler, id_error, 1, message);
}

/* No descriptor or no memory is left: not accepting for a while is all that helps. */
static void pause_accepting(struct gyre_http1_acceptor *acceptor, int error) {
  struct gyre_loop *loop = &acceptor->scheduler->loop;
  for (long i = 0; i < acceptor->listener_count; i++) gyre_loop_unwatch(loop, &acceptor->listeners[i].watch);
  (void)gyre_timers_arm(&loop->timers, &acceptor->pause, loop->now_ns + PAUSE_NS);
  struct complaint complaint = {acceptor, error};
  int state = 0;
  rb_protect(complain, (VALUE)&complaint, &state);
  if (state) rb_set_errinfo(Qnil); /* a log that cannot be written must not end the server */
}

/* Other processes may share the socket, and its mode with it: an accept(2) must not wait because one of them has changed that. */
static void do_not_block(int fd) {
  int flags = fcntl(fd, F_GETFL);
  if (flags >= 0 && !(flags & O_NONBLOCK)) fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

/* False: no connection waits, or none can be had now. */
static bool accept_next(struct gyre_http1_listener *listener) {
  struct gyre_http1_acceptor *acceptor = listener->acceptor;
  struct sockaddr_storage address;
  int fd = accept_one(listener->fd, &address);
  if (fd < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINVAL) { /* EINVAL: it listens no more */
      gyre_loop_drained(&acceptor->scheduler->loop, listener->fd, GYRE_READABLE);
      return false;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      pause_accepting(acceptor, errno);
      return false;
    }
    return true; /* that client is gone already (ECONNABORTED and the like) */
  }
  acceptor->accepted++;
  if (acceptor->open >= acceptor->limits.connections) {
    refuse_connection(acceptor, fd, &address);
    return true;
  }
  struct gyre_http1_connection *connection = gyre_http1_connection_new(acceptor, fd, &address);
  if (!connection) {
    close(fd);
    pause_accepting(acceptor, ENOMEM);
    return false;
  }
  connection->counted = true;
  connection->is_idle = true;
  acceptor->open++;
  acceptor->idle++;
  gyre_http1_connection_deadline(connection, acceptor->limits.first_byte_ns);
  return true;
}

static void on_acceptable(struct gyre_loop *loop, struct gyre_watch *watch, unsigned ready) {
  struct gyre_http1_listener *listener = GYRE_CONTAINER(watch, struct gyre_http1_listener, watch);
  struct gyre_http1_acceptor *acceptor = listener->acceptor;
  (void)ready;

  do_not_block(listener->fd);
  for (int budget = ACCEPT_BUDGET; budget > 0 && acceptor->listening; budget--) {
    if (!accept_next(listener)) return;
  }
  /* More may wait: have it reported again in the next turn. */
  gyre_loop_unwatch(loop, watch);
  if (acceptor->listening && gyre_loop_watch(loop, watch, listener->fd, GYRE_READABLE | GYRE_STANDING) < 0)
    pause_accepting(acceptor, ENOMEM);
}

/* --- methods (contract: server.rb) --- */

static VALUE acceptor_initialize(VALUE self, VALUE sockets, VALUE handler, VALUE limits, VALUE template) {
  struct gyre_http1_acceptor *acceptor = acceptor_get(self);
  Check_Type(sockets, T_ARRAY);
  Check_Type(template, T_HASH);
  if (acceptor->listeners) rb_raise(rb_eRuntimeError, "initialized twice");
  gyre_http1_limits_read(&acceptor->limits, limits);
  acceptor->sockets = rb_ary_dup(sockets);
  acceptor->handler = handler;
  acceptor->template = template;
  gyre_http1_env_prepare(acceptor);
  VALUE scheme = rb_hash_lookup(template, rb_str_new_cstr("rack.url_scheme"));
  acceptor->https = RB_TYPE_P(scheme, T_STRING) && strcmp(StringValueCStr(scheme), "https") == 0;

  long count = RARRAY_LEN(sockets);
  acceptor->fields = calloc(acceptor->limits.head.header_count + 1u, sizeof(struct gyre_http1_field));
  acceptor->listeners = calloc((size_t)count + 1, sizeof(struct gyre_http1_listener));
  if (!acceptor->fields || !acceptor->listeners) rb_memerror();
  for (long i = 0; i < count; i++) {
    struct gyre_http1_listener *listener = &acceptor->listeners[i];
    listener->acceptor = acceptor;
    listener->watch.fd = -1;
    listener->watch.ready = on_acceptable;
    listener->fd = rb_io_descriptor(rb_io_get_io(RARRAY_AREF(acceptor->sockets, i)));
    acceptor->listener_count++;
  }
  acceptor->pause.fire = resume_accepting;
  return self;
}

static void quit_listening(struct gyre_http1_acceptor *acceptor);

static VALUE acceptor_start(VALUE self) {
  struct gyre_http1_acceptor *acceptor = acceptor_get(self);
  if (acceptor->scheduler) rb_raise(rb_eRuntimeError, "started already");
  VALUE handovers = rb_const_get(rb_const_get(gyre_mGyre, rb_intern("HTTP")), rb_intern("Handovers"));
  acceptor->handovers = rb_class_new_instance(1, &self, handovers);
  acceptor->handover.run = run_handovers;
  struct gyre_scheduler *scheduler = acceptor->scheduler = gyre_scheduler_current();
  gyre_thread_check(scheduler);
  gyre_list_append(&scheduler->clients, &acceptor->client.node);
  acceptor->client.mark = mark_client;
  acceptor->client.closing = closing;
  acceptor->client.forked = forked;
  acceptor->listening = true;
  gyre_list_append(&scheduler->keepers, &acceptor->keeper);
  for (long i = 0; i < acceptor->listener_count; i++) {
    struct gyre_http1_listener *listener = &acceptor->listeners[i];
    int one = 1;
    /* Accepted sockets inherit both (Linux, BSD); on a Unix socket it fails, which is as well. */
    setsockopt(listener->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    do_not_block(listener->fd);
    int error = gyre_loop_watch(&scheduler->loop, &listener->watch, listener->fd, GYRE_READABLE | GYRE_STANDING);
    if (error < 0) {
      quit_listening(acceptor);
      rb_syserr_fail(-error, "watch a listening socket");
    }
  }
  return self;
}

static void quit_listening(struct gyre_http1_acceptor *acceptor) {
  if (!acceptor->listening) return;
  acceptor->listening = false;
  gyre_list_remove(&acceptor->keeper);
  if (acceptor->scheduler->closed) return;
  struct gyre_loop *loop = &acceptor->scheduler->loop;
  gyre_timers_cancel(&loop->timers, &acceptor->pause);
  for (long i = 0; i < acceptor->listener_count; i++) {
    gyre_loop_unwatch(loop, &acceptor->listeners[i].watch);
    gyre_loop_forget_unwatched(loop, acceptor->listeners[i].fd);
  }
}

/* For its clients a connection that the kernel has taken is one of this server's, and may hold a request already: closing the
 * socket would reset it. No more are taken than the queue can hold, for others may follow without end. */
static VALUE acceptor_stop(VALUE self) {
  struct gyre_http1_acceptor *acceptor = acceptor_get(self);
  if (!acceptor->listening) return self;
  for (long i = 0; i < acceptor->listener_count && !acceptor->scheduler->closed; i++) {
    struct gyre_http1_listener *listener = &acceptor->listeners[i];
    do_not_block(listener->fd);
    for (int budget = QUEUE_LENGTH; budget > 0 && accept_next(listener); budget--) continue;
  }
  quit_listening(acceptor);
  return self;
}

static void close_connections(struct gyre_http1_acceptor *acceptor, bool only_idle) {
  for (struct gyre_list *node = acceptor->connections.next, *next; node != &acceptor->connections; node = next) {
    next = node->next;
    struct gyre_http1_connection *connection = GYRE_CONTAINER(node, struct gyre_http1_connection, node);
    /* A request that has arrived is answered: its client cannot know whether it may send it again. The first one of a new
     * connection may still be on its way. */
    if (only_idle) {
      if (connection->handler || !connection->is_idle || gyre_http1_connection_input_waits(connection)) continue;
      if (connection->state == GYRE_HTTP1_FIRST_BYTE) {
        gyre_http1_connection_deadline(connection, NEW_NS);
        continue;
      }
    }
    gyre_http1_connection_close(connection, false);
    gyre_http1_connection_free(connection);
  }
}

static VALUE acceptor_drain(VALUE self) {
  struct gyre_http1_acceptor *acceptor = acceptor_get(self);
  acceptor_stop(self);
  acceptor->draining = true;
  if (acceptor->scheduler && !acceptor->scheduler->closed) close_connections(acceptor, true);
  return self;
}

static VALUE acceptor_interrupt(VALUE self, VALUE exception) {
  struct gyre_http1_acceptor *acceptor = acceptor_get(self);
  long count = 0;
  for (struct gyre_list *node = acceptor->active.next; node != &acceptor->active; node = node->next) {
    struct gyre_http1_connection *connection = GYRE_CONTAINER(node, struct gyre_http1_connection, active);
    if (NIL_P(connection->fiber)) continue;
    gyre_interrupt_fiber(acceptor->scheduler, connection->fiber, exception);
    count++;
  }
  return LONG2NUM(count);
}

/* Nothing of it is left on the loop, which goes on and must not keep it, its handler and the app until its own end. A thread that
 * has just been told its connection is served, and asks for something now, is told that the server has ended. */
static void leave_scheduler(struct gyre_http1_acceptor *acceptor) {
  if (!gyre_list_empty(&acceptor->active) || !gyre_list_empty(&acceptor->connections)) return;
  if (gyre_thread_is_foreign(acceptor->scheduler)) return;
  int state = 0;
  rb_protect(close_handovers, acceptor->handovers, &state);
  gyre_list_remove(&acceptor->handover.node);
  gyre_list_remove(&acceptor->client.node);
  if (state) rb_jump_tag(state);
}

static VALUE acceptor_close(VALUE self) {
  struct gyre_http1_acceptor *acceptor = acceptor_get(self);
  quit_listening(acceptor);
  acceptor->draining = true;
  if (!acceptor->scheduler || acceptor->scheduler->closed) return self;
  close_connections(acceptor, false);
  leave_scheduler(acceptor);
  return self;
}

static VALUE acceptor_stats(VALUE self) {
  struct gyre_http1_acceptor *acceptor = acceptor_get(self);
  VALUE stats = rb_hash_new();
#define STAT(name, value) rb_hash_aset(stats, ID2SYM(rb_intern(name)), ULL2NUM((unsigned long long)(value)))
  STAT("connections", acceptor->open);
  STAT("idle", acceptor->idle);
  STAT("running", acceptor->running);
  STAT("accepted", acceptor->accepted);
  STAT("requests", acceptor->requests);
  STAT("malformed", acceptor->malformed);
  STAT("refused", acceptor->refused);
#undef STAT
  return stats;
}

void gyre_init_http1_acceptor(void) {
  id_error = rb_intern("error");
  id_call = rb_intern("call");
  id_start = rb_intern("start");
  id_close = rb_intern("close");
  VALUE http1 = rb_define_module_under(gyre_mGyre, "HTTP");
  VALUE class = rb_define_class_under(http1, "NativeAcceptor", rb_cObject);
  rb_define_alloc_func(class, acceptor_allocate);
  rb_define_method(class, "initialize", acceptor_initialize, 4);
  rb_define_method(class, "start", acceptor_start, 0);
  rb_define_method(class, "stop", acceptor_stop, 0);
  rb_define_method(class, "drain", acceptor_drain, 0);
  rb_define_method(class, "interrupt", acceptor_interrupt, 1);
  rb_define_method(class, "close", acceptor_close, 0);
  rb_define_method(class, "stats", acceptor_stats, 0);
  rb_define_method(class, "post", acceptor_post, 0);
}
