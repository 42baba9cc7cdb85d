/* Gyre::Transport's calls that never wait, for state machines on a keyed loop. */
#include "net/net.h"
#include "net/tls.h"
#include "net/transport_object.h"

#include <ruby/encoding.h>

#define PART_BYTES 16384

static VALUE wants_read, wants_write, wants_both;

static VALUE wait_symbol(const struct gyre_side *side) {
  return ID2SYM(rb_intern(side->wants == GYRE_WRITABLE ? "wait_writable" : "wait_readable"));
}

/* Reads without waiting, for state machines on a {Gyre::Loop}. Continues a TLS handshake.
 * @param limit [Integer] bytes at most
 * @param buffer [String, nil] filled and returned, reusing its memory
 * @return [String, Symbol, nil] binary, :wait_readable or :wait_writable; nil at the end
 * @raise [SystemCallError, TLS::Error] the connection has failed */
static VALUE object_read_available(int argc, VALUE *argv, VALUE self) {
  rb_check_arity(argc, 0, 2);
  size_t limit = argc ? (size_t)gyre_transport_object_limit(argv[0]) : PART_BYTES;
  VALUE string = argc > 1 ? argv[1] : Qnil;
  if (!NIL_P(string)) StringValue(string); /* may run code that calls this transport */
  struct gyre_transport_object *object = gyre_transport_object_get(self);
  size_t available = gyre_transport_available(&object->transport);
  if (available && available < limit) limit = available;
  if (NIL_P(string)) {
    if (available) return gyre_transport_object_take(object, limit);
    if (limit > GYRE_LENT_BYTES) limit = GYRE_LENT_BYTES;
  } else {
    rb_str_modify(string);
    rb_str_set_len(string, 0);
    rb_str_modify_expand(string, (long)limit);
    rb_enc_associate(string, rb_ascii8bit_encoding());
  }
  char *bytes = NIL_P(string) ? gyre_lent_plain() : RSTRING_PTR(string);
  if (!bytes) rb_memerror();
  ssize_t count = (ssize_t)limit;
  if (available) {
    memcpy(bytes, gyre_transport_input(&object->transport), limit);
    gyre_transport_consume(&object->transport, limit);
  } else {
    count = gyre_transport_receive(&object->transport, bytes, limit);
  }
  if (count == 0) return Qnil;
  if (count == -EAGAIN) return wait_symbol(&object->transport.read);
  if (count < 0) gyre_transport_object_fail(object, (int)count, "receive from");
  if (NIL_P(string)) return rb_str_new(bytes, (long)count);
  rb_str_set_len(string, (long)count);
  return string;
}

/* @return [Boolean] whether received bytes are held, which the kernel no longer reports */
static VALUE object_pending_p(VALUE self) {
  const struct gyre_transport *transport = &gyre_transport_object_get(self)->transport;
  return transport->input || gyre_transport_pending(transport) ? Qtrue : Qfalse;
}

/* @return [String] received bytes that have not been read yet */
static VALUE object_unread(VALUE self) {
  struct gyre_transport_object *object = gyre_transport_object_get(self);
  return rb_str_new(gyre_transport_input(&object->transport), (long)gyre_transport_available(&object->transport));
}

static VALUE available(VALUE self, int (*call)(struct gyre_transport *), bool reads, const char *what) {
  struct gyre_transport_object *object = gyre_transport_object_get(self);
  struct gyre_transport *transport = &object->transport;
  int error = call(transport);
  if (error == -EAGAIN) return wait_symbol(reads ? &transport->read : &transport->write);
  if (error < 0) gyre_transport_object_fail(object, error, what);
  return Qtrue;
}

/* Queues bytes for {#flush_available}. Never waits or sends.
 * @param bytes [String]
 * @return [Integer] as {#unsent_bytes}
 * @raise [SystemCallError] the write side has ended or failed */
static VALUE object_queue(VALUE self, VALUE bytes) {
  StringValue(bytes);
  struct gyre_transport_object *object = gyre_transport_object_get(self);
  int error = gyre_transport_write(&object->transport, RSTRING_PTR(bytes), (size_t)RSTRING_LEN(bytes));
  RB_GC_GUARD(bytes);
  if (error < 0) gyre_transport_object_fail(object, error, "send to");
  return SIZET2NUM(gyre_transport_unsent(&object->transport));
}

/* Sends as many queued bytes as the socket takes.
 * @return [true, Symbol] true if the kernel has all bytes, else :wait_writable or :wait_readable
 * @raise [SystemCallError, TLS::Error] the connection has failed */
static VALUE object_flush_available(VALUE self) { return available(self, gyre_transport_flush, false, "send to"); }

/* {#close_write} without waiting. Repeat it, or {#flush_available}, until it returns true.
 * @return [true, Symbol] as {#flush_available}
 * @raise [SystemCallError, TLS::Error] as {#flush_available} */
static VALUE object_finish_available(VALUE self) { return available(self, gyre_transport_end, false, "send to"); }

/* @return [Integer] bytes, plain or encrypted, that the kernel has not taken yet */
static VALUE object_unsent_bytes(VALUE self) {
  return SIZET2NUM(gyre_transport_unsent(&gyre_transport_object_get(self)->transport));
}

/* Continues the TLS handshake, as reads and writes do.
 * @return [true, Symbol] true if it is over or not needed, else :wait_readable or :wait_writable
 * @raise [SystemCallError, TLS::Error] the handshake has failed */
static VALUE object_handshake_available(VALUE self) {
  return available(self, gyre_transport_handshake, true, "TLS handshake with");
}

/* @return [Boolean] whether any byte of the peer has been received, plain or encrypted */
static VALUE object_begun_p(VALUE self) {
  const struct gyre_transport *transport = &gyre_transport_object_get(self)->transport;
#ifdef GYRE_HAVE_LIBSSL
  if (transport->operations == &gyre_transport_tls && gyre_tls_begun(transport)) return Qtrue;
#endif
  return transport->received_bytes > 0 ? Qtrue : Qfalse;
}

/* Returns the events for which a loop should watch before these methods are called again.
 * @example loop.watch_io(key, transport.to_io, **transport.wants)
 * @param read [Boolean] whether the protocol wants input
 * @return [Hash{Symbol => Boolean}, nil] keywords of Gyre::Loop#watch_io, frozen; nil: no event
 */
static VALUE object_wants(int argc, VALUE *argv, VALUE self) {
  VALUE options, read = Qundef;
  static ID keyword;
  if (!keyword) keyword = rb_intern("read");
  rb_scan_args(argc, argv, "0:", &options);
  if (!NIL_P(options)) rb_get_kwargs(options, &keyword, 0, 1, &read);
  const struct gyre_transport *transport = &gyre_transport_object_get(self)->transport;
  unsigned events = 0;
  if (!transport->handshaken) {
    events = transport->read.wants ? transport->read.wants : GYRE_READABLE;
  } else {
    if ((read == Qundef || RTEST(read)) && transport->read.state == GYRE_SIDE_OPEN)
      events |= transport->read.wants ? transport->read.wants : GYRE_READABLE;
    bool ending = transport->write.state == GYRE_SIDE_ENDING;
    if (transport->write.state != GYRE_SIDE_FAILED && (ending || gyre_transport_unsent(transport)))
      events |= transport->write.wants ? transport->write.wants : GYRE_WRITABLE;
  }
  if (!events) return Qnil;
  return events == GYRE_READABLE ? wants_read : events == GYRE_WRITABLE ? wants_write : wants_both;
}

static VALUE wants(bool read, bool write) {
  VALUE hash = rb_hash_new();
  rb_hash_aset(hash, ID2SYM(rb_intern("read")), read ? Qtrue : Qfalse);
  rb_hash_aset(hash, ID2SYM(rb_intern("write")), write ? Qtrue : Qfalse);
  return gyre_kept(rb_obj_freeze(hash));
}

void gyre_init_net_transport_available(void) {
  VALUE transport_class = rb_define_class_under(gyre_mGyre, "Transport", rb_cObject);
  wants_read = wants(true, false);
  wants_write = wants(false, true);
  wants_both = wants(true, true);
  rb_define_method(transport_class, "read_available", object_read_available, -1);
  rb_define_method(transport_class, "pending?", object_pending_p, 0);
  rb_define_method(transport_class, "unread", object_unread, 0);
  rb_define_method(transport_class, "queue", object_queue, 1);
  rb_define_method(transport_class, "flush_available", object_flush_available, 0);
  rb_define_method(transport_class, "finish_available", object_finish_available, 0);
  rb_define_method(transport_class, "handshake_available", object_handshake_available, 0);
  rb_define_method(transport_class, "unsent_bytes", object_unsent_bytes, 0);
  rb_define_method(transport_class, "begun?", object_begun_p, 0);
  rb_define_method(transport_class, "wants", object_wants, -1);
}
