/*
 * Gyre::Transport: a transport as fibers and threads use it. A method that cannot go on waits by the scheduler of its own thread,
 * or blocks that thread only; what it moves, it moves under the GVL, so any thread may call any method.
 */
#include "net/net.h"
#include "loop/loop.h"
#include "fiber/ruby_io.h"
#include "fiber/scheduler.h"
#include "net/tls.h"

#include <errno.h>
#include <ruby/encoding.h>
#include <string.h>

#define PART_BYTES 16384

struct object {
  struct gyre_transport transport;
  VALUE io; /* the socket, which Ruby closes; nil before initialize */
  VALUE peer;
  VALUE context;
  VALUE read_timeout, write_timeout; /* seconds or nil */
};

static VALUE transport_class;

/* --- memory --- */

static void object_mark(void *opaque) {
  struct object *object = opaque;
  rb_gc_mark(object->io);
  rb_gc_mark(object->peer);
  rb_gc_mark(object->context);
  rb_gc_mark(object->read_timeout);
  rb_gc_mark(object->write_timeout);
}

static void object_free(void *opaque) {
  struct object *object = opaque;
  gyre_transport_free(&object->transport);
  xfree(object);
}

static size_t object_size(const void *opaque) {
  const struct object *object = opaque;
  return sizeof(*object) + object->transport.input.capacity + object->transport.output.capacity;
}

static const rb_data_type_t object_type = {
    .wrap_struct_name = "Gyre::Transport",
    .function = {.dmark = object_mark, .dfree = object_free, .dsize = object_size},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

static VALUE object_allocate(VALUE class) {
  struct object *object;
  VALUE self = TypedData_Make_Struct(class, struct object, &object_type, object);
  object->transport.fd = -1;
  object->io = object->peer = object->context = object->read_timeout = object->write_timeout = Qnil;
  return self;
}

/* Raises IOError once it is closed, by whatever means. */
static struct object *get(VALUE self) {
  struct object *object = rb_check_typeddata(self, &object_type);
  if (NIL_P(object->io)) rb_raise(rb_eIOError, "uninitialized transport");
  int fd = rb_io_descriptor(object->io); /* raises IOError */
  if (fd != object->transport.fd) rb_raise(rb_eIOError, "the transport's socket was reopened");
  return object;
}

/* --- errors, waits --- */

NORETURN(static void fail(struct object *object, int error, const char *what));
static void fail(struct object *object, int error, const char *what) {
  const char *text = NULL;
#ifdef GYRE_HAVE_LIBSSL
  if (object->transport.operations == &gyre_transport_tls) text = gyre_tls_error(&object->transport);
#endif
  VALUE message = rb_sprintf("%s %" PRIsVALUE "%s%s", what, object->peer, text ? ": " : "", text ? text : "");
  if (error == -EPROTO && text) rb_exc_raise(rb_class_new_instance(1, &message, rb_path2class("Gyre::TLS::Error")));
  rb_exc_raise(rb_syserr_new_str(-error, message));
}

/* Until the descriptor is ready for what the side wants. Another thread may have closed it meanwhile: then `get` raises. */
static struct object *wait_for(VALUE self, struct object *object, const struct gyre_side *side, VALUE timeout, const char *what) {
  unsigned wants = side->wants;
  struct gyre_scheduler *scheduler = NIL_P(rb_fiber_scheduler_current()) ? NULL : gyre_scheduler_here();
  bool ready;
  if (scheduler) {
    gyre_loop_drained(&scheduler->loop, object->transport.fd, wants);
    int result = gyre_wait_io(scheduler, object->transport.fd, wants, gyre_duration_ns(timeout), object->io);
    if (result < 0) rb_syserr_fail(-result, "wait for a descriptor");
    ready = result != 0;
  } else {
    ready = RTEST(rb_io_wait(object->io, UINT2NUM(wants), timeout));
  }
  if (!ready) {
    VALUE message = rb_sprintf("%s %" PRIsVALUE ": nothing for %" PRIsVALUE " s", what, object->peer, timeout);
    rb_exc_raise(rb_class_new_instance(1, &message, rb_path2class("Gyre::TimeoutError")));
  }
  return get(self);
}

/* Waits for more input; false at the end. */
static bool more(VALUE self, struct object **object) {
  for (;;) {
    ssize_t count = gyre_transport_fill(&(*object)->transport, PART_BYTES);
    if (count > 0) return true;
    if (count == 0) return false;
    if (count != -EAGAIN) fail(*object, (int)count, "receive from");
    *object = wait_for(self, *object, &(*object)->transport.read, (*object)->read_timeout, "receive from");
  }
}

static VALUE take(struct object *object, size_t length) {
  VALUE string = rb_str_new(gyre_transport_input(&object->transport), (long)length);
  gyre_transport_consume(&object->transport, length);
  return string;
}

/* --- reading --- */

/*
 * What is there, at least a byte: waits for that only.
 *
 * @param limit [Integer] bytes at most
 * @return [String, nil] binary; nil at the end
 */
static VALUE object_read_partial(int argc, VALUE *argv, VALUE self) {
  struct object *object = get(self);
  rb_check_arity(argc, 0, 1);
  long limit = argc ? NUM2LONG(argv[0]) : PART_BYTES;
  if (limit <= 0) rb_raise(rb_eArgError, "limit must be positive, got %ld", limit);
  if (gyre_transport_available(&object->transport) == 0 && !more(self, &object)) return Qnil;
  size_t available = gyre_transport_available(&object->transport);
  return take(object, available < (size_t)limit ? available : (size_t)limit);
}

/*
 * Reads so many bytes, fewer only at the end; without a length everything up to the end.
 *
 * @param length [Integer, nil] bytes
 * @return [String, nil] binary; nil at the end, "" for a length of 0 or without one
 */
static VALUE object_read(int argc, VALUE *argv, VALUE self) {
  struct object *object = get(self);
  rb_check_arity(argc, 0, 1);
  bool all = argc == 0 || NIL_P(argv[0]);
  long length = all ? 0 : NUM2LONG(argv[0]);
  if (length < 0) rb_raise(rb_eArgError, "negative length %ld given", length);
  while (all || gyre_transport_available(&object->transport) < (size_t)length)
    if (!more(self, &object)) break;
  size_t available = gyre_transport_available(&object->transport);
  if (!all && length > 0 && available == 0) return Qnil;
  return take(object, all || available < (size_t)length ? available : (size_t)length);
}

/*
 * Reads up to a separator.
 *
 * @param separator [String]
 * @param limit [Integer] bytes that may come before it
 * @param keep [Boolean] whether it is part of what is returned
 * @return [String, nil] binary; nil when the end comes before it: what came until then stays to be read
 * @raise [Gyre::ProtocolError] when there are more bytes
 */
static VALUE read_until(VALUE self, VALUE separator, size_t limit, bool keep, bool rest) {
  struct object *object = get(self);
  StringValue(separator);
  if (RSTRING_LEN(separator) == 0) rb_raise(rb_eArgError, "the separator is empty");
  separator = rb_str_new_frozen(separator);
  size_t length = (size_t)RSTRING_LEN(separator), seen = 0;
  for (;;) {
    size_t available = gyre_transport_available(&object->transport);
    if (seen > available) seen = 0; /* another reader has taken some */
    const char *found = available >= length ? memmem(gyre_transport_input(&object->transport) + seen, available - seen,
                                                     RSTRING_PTR(separator), length)
                                            : NULL;
    if (found) {
      size_t before = (size_t)(found - gyre_transport_input(&object->transport));
      if (before > limit) available = limit + length;
      if (before <= limit) {
        VALUE string = rb_str_new(gyre_transport_input(&object->transport), (long)(keep ? before + length : before));
        gyre_transport_consume(&object->transport, before + length);
        return string;
      }
    }
    if (available >= limit + length)
      rb_raise(rb_path2class("Gyre::ProtocolError"), "no end within %" PRIuSIZE " bytes from %" PRIsVALUE, limit, object->peer);
    seen = available >= length ? available - length + 1 : 0;
    if (!more(self, &object)) {
      available = gyre_transport_available(&object->transport);
      return rest && available ? take(object, available) : Qnil;
    }
  }
  RB_GC_GUARD(separator);
}

static VALUE object_read_until(VALUE self, VALUE separator, VALUE limit, VALUE keep, VALUE rest) {
  long most = NUM2LONG(limit);
  if (most < 0) rb_raise(rb_eArgError, "negative limit %ld given", most);
  return read_until(self, separator, (size_t)most, RTEST(keep), RTEST(rest));
}

/* --- writing --- */

static void flush(VALUE self, struct object *object, int (*call)(struct gyre_transport *)) {
  int error;
  while ((error = call(&object->transport)) == -EAGAIN)
    object = wait_for(self, object, &object->transport.write, object->write_timeout, "send to");
  if (error < 0) fail(object, error, "send to");
}

/*
 * Sends the bytes of what is given, as one: those of another fiber or thread come before or behind them. Returns when the kernel
 * has them.
 *
 * @param strings [Array<String>]
 * @return [Integer] bytes
 */
static VALUE object_write(int argc, VALUE *argv, VALUE self) {
  struct object *object = get(self);
  size_t bytes = 0;
  for (int i = 0; i < argc; i++) {
    VALUE string = rb_obj_as_string(argv[i]);
    int error = gyre_transport_write(&object->transport, RSTRING_PTR(string), (size_t)RSTRING_LEN(string));
    RB_GC_GUARD(string);
    if (error < 0) fail(object, error, "send to");
    bytes += (size_t)RSTRING_LEN(string);
  }
  flush(self, object, gyre_transport_flush);
  return SIZET2NUM(bytes);
}

/*
 * Tells the peer that no more will come. It can still be read from.
 *
 * @return [nil]
 */
static VALUE object_close_write(VALUE self) {
  flush(self, get(self), gyre_transport_end);
  return Qnil;
}

/* --- life --- */

/* @param io [Socket] connected; closed with the transport
 * @param peer [String] its address, for messages
 * @return [Transport] */
static VALUE object_initialize(VALUE self, VALUE io, VALUE peer) {
  struct object *object = rb_check_typeddata(self, &object_type);
  int fd = rb_io_descriptor(io);
  gyre_transport_free(&object->transport);
  gyre_transport_init(&object->transport, fd, &gyre_transport_plain);
  RB_OBJ_WRITE(self, &object->io, io);
  RB_OBJ_WRITE(self, &object->peer, rb_obj_as_string(peer));
  return self;
}

static VALUE object_io(VALUE self) { return ((struct object *)rb_check_typeddata(self, &object_type))->io; }
static VALUE object_peer(VALUE self) { return ((struct object *)rb_check_typeddata(self, &object_type))->peer; }

static VALUE object_read_timeout(VALUE self) {
  return ((struct object *)rb_check_typeddata(self, &object_type))->read_timeout;
}

/* @param seconds [Numeric, nil] how long a read waits for a byte; nil: without end */
static VALUE object_set_read_timeout(VALUE self, VALUE seconds) {
  struct object *object = rb_check_typeddata(self, &object_type);
  (void)gyre_duration_ns(seconds);
  RB_OBJ_WRITE(self, &object->read_timeout, seconds);
  return seconds;
}

static VALUE object_write_timeout(VALUE self) {
  return ((struct object *)rb_check_typeddata(self, &object_type))->write_timeout;
}

/* @param seconds [Numeric, nil] how long a write waits for the peer to take a byte; nil: without end */
static VALUE object_set_write_timeout(VALUE self, VALUE seconds) {
  struct object *object = rb_check_typeddata(self, &object_type);
  (void)gyre_duration_ns(seconds);
  RB_OBJ_WRITE(self, &object->write_timeout, seconds);
  return seconds;
}

/* @return [Boolean] whether TLS is under it */
static VALUE object_tls_p(VALUE self) {
  return ((struct object *)rb_check_typeddata(self, &object_type))->transport.operations == &gyre_transport_plain ? Qfalse : Qtrue;
}

#ifdef GYRE_HAVE_LIBSSL
/* @param context [Gyre::TLS::Context]
 * @param name [String, nil] the peer's, for a client
 * @return [self] after the handshake */
static VALUE object_start_tls(VALUE self, VALUE context, VALUE name) {
  struct object *object = get(self);
  if (object->transport.operations != &gyre_transport_plain) rb_raise(rb_eRuntimeError, "TLS has begun already");
  int error = gyre_tls_start(&object->transport, gyre_tls_context_get(context), NIL_P(name) ? NULL : StringValueCStr(name));
  if (error < 0) rb_memerror();
  RB_OBJ_WRITE(self, &object->context, context);
  while ((error = gyre_transport_handshake(&object->transport)) == -EAGAIN)
    object = wait_for(self, object, &object->transport.read, object->read_timeout, "TLS handshake with");
  if (error < 0) fail(object, error, "TLS handshake with");
  return self;
}

static struct object *get_tls(VALUE self) {
  struct object *object = rb_check_typeddata(self, &object_type);
  return object->transport.operations == &gyre_transport_tls ? object : NULL;
}

/* @return [String, nil] "TLSv1.3" */
static VALUE object_tls_version(VALUE self) {
  struct object *object = get_tls(self);
  return object ? rb_str_new_cstr(gyre_tls_version(&object->transport)) : Qnil;
}

/* @return [String, nil] */
static VALUE object_tls_cipher(VALUE self) {
  struct object *object = get_tls(self);
  return object ? rb_str_new_cstr(gyre_tls_cipher(&object->transport)) : Qnil;
}

/* @return [String, nil] the protocol agreed on (ALPN) */
static VALUE object_alpn(VALUE self) {
  struct object *object = get_tls(self);
  const unsigned char *protocol = NULL;
  unsigned length = object ? gyre_tls_alpn(&object->transport, &protocol) : 0;
  return length ? rb_str_new((const char *)protocol, length) : Qnil;
}

/* @return [Boolean] whether an earlier session was resumed */
static VALUE object_tls_resumed_p(VALUE self) {
  struct object *object = get_tls(self);
  return object && gyre_tls_resumed(&object->transport) ? Qtrue : Qfalse;
}

/* @return [String, nil] DER */
static VALUE object_peer_certificate(VALUE self) {
  struct object *object = get_tls(self);
  unsigned char *der = NULL;
  int length = object ? gyre_tls_peer_certificate(&object->transport, &der) : 0;
  if (!length) return Qnil;
  VALUE string = rb_str_new((const char *)der, length);
  gyre_tls_free(der);
  return string;
}
#endif

void gyre_init_net_transport(void) {
  transport_class = rb_define_class_under(gyre_mGyre, "Transport", rb_cObject);
  rb_gc_register_mark_object(transport_class);
  rb_define_alloc_func(transport_class, object_allocate);
  rb_define_method(transport_class, "initialize", object_initialize, 2);
  rb_define_method(transport_class, "to_io", object_io, 0);
  rb_define_method(transport_class, "peer", object_peer, 0);
  rb_define_method(transport_class, "read_partial", object_read_partial, -1);
  rb_define_method(transport_class, "read", object_read, -1);
  rb_define_private_method(transport_class, "take_until", object_read_until, 4);
  rb_define_method(transport_class, "write", object_write, -1);
  rb_define_method(transport_class, "close_write", object_close_write, 0);
  rb_define_method(transport_class, "read_timeout_s", object_read_timeout, 0);
  rb_define_method(transport_class, "read_timeout_s=", object_set_read_timeout, 1);
  rb_define_method(transport_class, "write_timeout_s", object_write_timeout, 0);
  rb_define_method(transport_class, "write_timeout_s=", object_set_write_timeout, 1);
  rb_define_method(transport_class, "tls?", object_tls_p, 0);
#ifdef GYRE_HAVE_LIBSSL
  rb_define_method(transport_class, "start_tls", object_start_tls, 2);
  rb_define_method(transport_class, "tls_version", object_tls_version, 0);
  rb_define_method(transport_class, "tls_cipher", object_tls_cipher, 0);
  rb_define_method(transport_class, "alpn", object_alpn, 0);
  rb_define_method(transport_class, "tls_resumed?", object_tls_resumed_p, 0);
  rb_define_method(transport_class, "peer_certificate_der", object_peer_certificate, 0);
#endif
}
