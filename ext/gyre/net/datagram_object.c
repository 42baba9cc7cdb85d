/* Gyre::Datagram and its packets, for fibers and threads. Receives several packets at once and
 * keeps the rest for the next calls, unless another reader waits. Replies of a turn leave together
 * at its end. Moves bytes under the GVL: any thread may call any method. */
#include "fiber/scheduler.h"
#include "loop/forks.h"
#include "net/datagram.h"
#include "net/socket_wait.h"

#include <ruby/io.h>

struct object {
  VALUE io;                            /* nil before initialize */
  VALUE received[GYRE_DATAGRAM_BATCH]; /* kept packets: `count` of them, from index `next` */
  int next, count;
  int waiting; /* readers */
  int fd;
  size_t limit;
  size_t refused;                    /* replies refused by the kernel */
  unsigned forks;                    /* gyre_forks at the last call */
  struct gyre_datagram_queue *queue; /* NULL before the first reply */
  struct gyre_deferred flushing;
};

struct packet {
  VALUE bytes, socket;
  bool truncated;
  struct gyre_datagram_address from; /* only its first `length` bytes are allocated */
};

static VALUE datagram_class, packet_class;

static void object_mark(void *opaque) {
  struct object *object = opaque;
  rb_gc_mark(object->io);
  for (int i = object->next; i < object->next + object->count; i++) rb_gc_mark(object->received[i]);
}

static void object_free(void *opaque) {
  struct object *object = opaque;
  gyre_deferred_cancel(&object->flushing);
  free(object->queue);
  xfree(object);
}

static size_t object_size(const void *opaque) {
  const struct object *object = opaque;
  return sizeof(*object) + (object->queue ? sizeof(*object->queue) : 0);
}

/* No write barriers, because `received` changes with every packet. */
GYRE_TYPE(object_type, "Gyre::Datagram", object_mark, object_free, object_size, 0);

static void flush_at_the_end(struct gyre_loop *loop, struct gyre_deferred *deferred);

static VALUE object_allocate(VALUE class) {
  struct object *object;
  VALUE self = TypedData_Make_Struct(class, struct object, &object_type, object);
  object->io = Qnil;
  object->fd = -1;
  gyre_deferred_init(&object->flushing, flush_at_the_end);
  return self;
}

GYRE_MARKER(packet_mark, struct packet, own->bytes, own->socket)

static size_t packet_size(const void *opaque) {
  return offsetof(struct packet, from.any) + ((const struct packet *)opaque)->from.length;
}

GYRE_TYPE(packet_type, "Gyre::Datagram::Packet", packet_mark, RUBY_DEFAULT_FREE, packet_size,
          RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED | GYRE_TYPED_EMBEDDABLE);

static struct packet *get_packet(VALUE self) { return rb_check_typeddata(self, &packet_type); }

static VALUE new_packet(VALUE socket, const struct gyre_datagram_packet *received) {
  VALUE bytes = rb_str_new(received->bytes, (long)received->length);
  size_t size = offsetof(struct packet, from.any) + received->from.length;
  VALUE self = rb_data_typed_object_zalloc(packet_class, size, &packet_type);
  struct packet *packet = get_packet(self);
  RB_OBJ_WRITE(self, &packet->bytes, bytes);
  RB_OBJ_WRITE(self, &packet->socket, socket);
  packet->truncated = received->truncated;
  packet->from.length = received->from.length;
  memcpy(&packet->from.any, &received->from.any, received->from.length);
  return self;
}

/* Raises IOError if the socket is closed. A forked child drops the parent's packets. */
static struct object *get(VALUE self) {
  struct object *object = rb_check_typeddata(self, &object_type);
  if (NIL_P(object->io)) rb_raise(rb_eIOError, "uninitialized datagram socket");
  if (rb_io_descriptor(object->io) != object->fd) rb_raise(rb_eIOError, "the socket was reopened");
  if (object->forks != gyre_forks) {
    object->count = 0;
    if (object->queue) object->queue->count = 0;
    gyre_deferred_cancel(&object->flushing); /* the parent's entry */
    object->forks = gyre_forks;
  }
  return object;
}

_Noreturn static void fail(VALUE self, int error, const char *what) {
  VALUE name = rb_funcall(self, rb_intern("name"), 0);
  rb_exc_raise(rb_syserr_new_str(-error, rb_sprintf("%s %" PRIsVALUE, what, name)));
}

/* Like a network, drops packets that the kernel does not take. */
static void flush_at_the_end(struct gyre_loop *loop, struct gyre_deferred *deferred) {
  struct object *object = GYRE_CONTAINER(deferred, struct object, flushing);
  bool open = object->forks == gyre_forks && gyre_socket_is_open(object->io, object->fd);
  object->refused += open ? gyre_datagram_flush(object->fd, object->queue) : (size_t)object->queue->count;
  object->queue->count = 0;
}

/* Sends queued replies before the caller sends another packet or waits. */
static void flush(struct object *object) {
  if (!object->queue || object->queue->count == 0) return;
  gyre_deferred_cancel(&object->flushing);
  flush_at_the_end(NULL, &object->flushing);
}

struct reading {
  struct object *object;
  int64_t timeout_ns;
};

static VALUE reading_body(VALUE argument) {
  struct reading *reading = (struct reading *)argument;
  return gyre_socket_wait(reading->object->io, reading->object->fd, GYRE_READABLE, reading->timeout_ns) ? Qtrue
                                                                                                        : Qfalse;
}

static VALUE reading_ensure(VALUE argument) {
  ((struct reading *)argument)->object->waiting--;
  return Qnil;
}

/* False after the timeout. */
static bool wait_for_packets(struct object *object, int64_t until_ns) {
  int64_t left_ns = until_ns < 0 ? -1 : until_ns - gyre_socket_now();
  if (until_ns >= 0 && left_ns <= 0) return false;
  struct reading reading = {object, left_ns};
  object->waiting++;
  return RTEST(rb_ensure(reading_body, (VALUE)&reading, reading_ensure, (VALUE)&reading));
}

/* If other readers wait, receives only one packet, because a kept packet would wake no reader. */
static int fill(VALUE self, struct object *object) {
  struct gyre_datagram_packet packets[GYRE_DATAGRAM_BATCH];
  int count = gyre_datagram_receive(object->fd, object->limit, packets, object->waiting ? 1 : GYRE_DATAGRAM_BATCH);
  object->next = 0;
  for (int i = 0; i < count; i++) {
    object->received[i] = new_packet(self, &packets[i]);
    object->count = i + 1;
  }
  return count;
}

static struct object *any(VALUE self) { return rb_check_typeddata(self, &object_type); }

/* Waits for the next packet. Returns a kept packet without a system call.
 * @param timeout [Numeric, nil] seconds
 * @return [Packet, nil]
 * @api private */
static VALUE object_receive(VALUE self, VALUE timeout) {
  if (any(self)->count == 0) gyre_socket_give_way();
  struct object *object = get(self);
  int64_t until_ns = gyre_duration_ns(timeout);
  if (until_ns > 0 && object->count == 0) until_ns += gyre_socket_now();
  while (object->count == 0) {
    flush(object);
    int count = fill(self, object);
    if (count < 0 && count != -EAGAIN) fail(self, count, "receive on");
    if (count < 0 && !wait_for_packets(object, until_ns)) return Qnil;
    object = get(self);
  }
  object->count--;
  return object->received[object->next++];
}

/* Waits while the socket is full. If a Unix socket at `to` is full, raises EAGAIN, because its room
 * is never reported. */
static VALUE transmit(VALUE self, VALUE bytes, const struct gyre_datagram_address *to) {
  struct object *object = get(self);
  flush(object);
  for (;;) {
    int error = gyre_datagram_send(object->fd, RSTRING_PTR(bytes), (size_t)RSTRING_LEN(bytes), to);
    if (error == 0) return SIZET2NUM((size_t)RSTRING_LEN(bytes));
    if (error != -EAGAIN || (to && to->any.sa_family == AF_UNIX)) fail(self, error, "send on");
    (void)gyre_socket_wait(object->io, object->fd, GYRE_WRITABLE, -1);
    object = get(self);
  }
}

/* Sends a packet.
 * @param bytes [String]
 * @param to [Packet, String, nil] packet to answer, or struct sockaddr; nil: the connected peer
 * @return [Integer] bytes */
static VALUE object_transmit(VALUE self, VALUE bytes, VALUE to) {
  StringValue(bytes);
  if (NIL_P(to)) return transmit(self, bytes, NULL);
  struct gyre_datagram_address address;
  if (rb_typeddata_is_kind_of(to, &packet_type)) {
    const struct packet *packet = get_packet(to);
    address.length = packet->from.length;
    memcpy(&address.any, &packet->from.any, address.length);
  } else {
    StringValue(to);
    if ((size_t)RSTRING_LEN(to) > sizeof(struct sockaddr_un)) rb_raise(rb_eArgError, "the address is too long");
    address.length = (socklen_t)RSTRING_LEN(to);
    memcpy(&address.any, RSTRING_PTR(to), address.length);
  }
  if (address.length < sizeof(sa_family_t)) rb_raise(rb_eArgError, "there is no address to send to");
  VALUE sent = transmit(self, bytes, &address);
  RB_GC_GUARD(bytes);
  return sent;
}

/* Answers the packet's sender. In a Gyre scheduler, replies of a turn leave together at its end,
 * and {Datagram#refused_replies} counts lost replies. Calls {Datagram#send} outside of Gyre's
 * scheduler, for Unix sockets, and for more than 2 KB.
 * @param bytes [String]
 * @return [nil]
 * @raise [IOError] the socket is closed
 * @raise [SystemCallError] as {Datagram#send} */
static VALUE packet_reply(VALUE self, VALUE bytes) {
  const struct packet *packet = get_packet(self);
  struct object *object = get(packet->socket);
  struct gyre_scheduler *scheduler = gyre_socket_scheduler();
  StringValue(bytes);
  size_t length = (size_t)RSTRING_LEN(bytes);
  if (!scheduler || length > GYRE_DATAGRAM_QUEUED || packet->from.length == 0 ||
      packet->from.any.sa_family == AF_UNIX) {
    object_transmit(packet->socket, bytes, self);
    return Qnil;
  }
  struct gyre_datagram_address to;
  to.length = packet->from.length;
  memcpy(&to.any, &packet->from.any, to.length);
  if (!object->queue && !(object->queue = calloc(1, sizeof(*object->queue)))) rb_memerror();
  if (!gyre_datagram_enqueue(object->queue, RSTRING_PTR(bytes), length, &to, NULL)) {
    flush(object);
    (void)gyre_datagram_enqueue(object->queue, RSTRING_PTR(bytes), length, &to, NULL);
  }
  gyre_loop_defer(&scheduler->loop, &object->flushing);
  RB_GC_GUARD(bytes);
  RB_GC_GUARD(self);
  return Qnil;
}

/* @return [nil] */
static VALUE object_flush(VALUE self) {
  flush(get(self));
  return Qnil;
}

/* @param io [Socket]
 * @param limit [Integer] maximum bytes of a received packet */
static VALUE object_use(VALUE self, VALUE io, VALUE limit) {
  struct object *object = any(self);
  long bytes = NUM2LONG(limit);
  if (bytes < 1 || bytes > GYRE_DATAGRAM_BYTES)
    rb_raise(rb_eArgError, "bytes_limit must be from 1 to %d, got %ld", GYRE_DATAGRAM_BYTES, bytes);
  object->fd = rb_io_descriptor(io);
  object->io = io;
  object->limit = (size_t)bytes;
  object->forks = gyre_forks;
  return self;
}

/* @return [Socket] */
static VALUE object_io(VALUE self) { return any(self)->io; }

/* @return [Boolean] whether packets are kept, which the kernel no longer reports */
static VALUE object_pending_p(VALUE self) { return get(self)->count > 0 ? Qtrue : Qfalse; }

/* @return [Integer] replies refused by the kernel */
static VALUE object_refused_replies(VALUE self) { return SIZET2NUM(any(self)->refused); }

/* @return [String] binary */
static VALUE packet_bytes(VALUE self) { return get_packet(self)->bytes; }

/* @return [Boolean] whether the packet exceeded the socket's limit */
static VALUE packet_truncated_p(VALUE self) { return get_packet(self)->truncated ? Qtrue : Qfalse; }

/* Returns the sender as a struct sockaddr; "" for an unbound Unix socket. */
static VALUE packet_sockaddr(VALUE self) {
  const struct packet *packet = get_packet(self);
  return rb_str_new((const char *)&packet->from.any, (long)packet->from.length);
}

void gyre_init_net_datagram(void) {
  gyre_forks_count();
  datagram_class = rb_define_class_under(gyre_mGyre, "Datagram", rb_cObject);
  rb_define_alloc_func(datagram_class, object_allocate);
  rb_define_method(datagram_class, "to_io", object_io, 0);
  rb_define_method(datagram_class, "pending?", object_pending_p, 0);
  rb_define_method(datagram_class, "refused_replies", object_refused_replies, 0);
  rb_define_method(datagram_class, "take", object_receive, 1);
  rb_define_private_method(datagram_class, "transmit", object_transmit, 2);
  rb_define_private_method(datagram_class, "flush", object_flush, 0);
  rb_define_private_method(datagram_class, "use", object_use, 2);

  packet_class = rb_define_class_under(datagram_class, "Packet", rb_cObject);
  rb_undef_alloc_func(packet_class);
  rb_define_method(packet_class, "bytes", packet_bytes, 0);
  rb_define_method(packet_class, "truncated?", packet_truncated_p, 0);
  rb_define_method(packet_class, "sockaddr", packet_sockaddr, 0);
  rb_define_method(packet_class, "reply", packet_reply, 1);
}
