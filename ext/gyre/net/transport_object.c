/*
 * Gyre::Transport: a transport as fibers and threads use it. A method that cannot go on waits by
 * the scheduler of its own thread, or blocks that thread only; what it moves, it moves under the
 * GVL, so any thread may call any method.
 */
#include "fiber/ruby_io.h"
#include "fiber/scheduler.h"
#include "loop/loop.h"
#include "net/late_send.h"
#include "net/net.h"
#include "net/socket_wait.h"
#include "net/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <ruby/encoding.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>

#define PART_BYTES 16384
#define PIECES 16
#define HIGH_WATER (64 * 1024) /* unsent bytes at which a writer that does not wait has to */
#define LOW_WATER (16 * 1024)  /* and until when */
#define FILE_PIECE_BYTES (1 << 20)

struct object {
  struct gyre_transport transport;
  VALUE io; /* the socket, which Ruby closes; nil before initialize */
  VALUE peer;
  VALUE context;
  VALUE read_timeout, write_timeout; /* seconds or nil */
  VALUE read_turn, write_turn;       /* Thread::Mutex, once a reader or writer has waited */
  uint32_t writers;                  /* that wait, or were interrupted while they did */
  struct gyre_late_send *late;       /* NULL before the first << */
};

static VALUE transport_class, wants_read, wants_write, wants_both;

/* --- memory --- */

static void object_mark(void *opaque) {
  struct object *object = opaque;
  rb_gc_mark(object->io);
  rb_gc_mark(object->peer);
  rb_gc_mark(object->context);
  rb_gc_mark(object->read_timeout);
  rb_gc_mark(object->write_timeout);
  rb_gc_mark(object->read_turn);
  rb_gc_mark(object->write_turn);
}

static void object_free(void *opaque) {
  struct object *object = opaque;
  if (object->late)
    gyre_deferred_cancel(&object->late->deferred); /* its scheduler is garbage, too: that would mark this */
  xfree(object->late);
  gyre_transport_free(&object->transport);
  xfree(object);
}

static size_t object_size(const void *opaque) {
  const struct object *object = opaque;
  const struct gyre_bytes *input = object->transport.input, *output = object->transport.output;
  return sizeof(*object) + (object->late ? sizeof(*object->late) : 0) + (input ? input->capacity : 0) +
         (output ? output->capacity : 0);
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
  object->read_turn = object->write_turn = Qnil;
  return self;
}

VALUE gyre_net_transport_take(struct gyre_transport *transport, VALUE peer) {
  VALUE self = object_allocate(transport_class);
  struct object *object = RTYPEDDATA_DATA(self);
  object->peer = peer;
  object->io = rb_funcall(rb_path2class("Socket"), rb_intern("for_fd"), 1, INT2NUM(transport->fd));
  object->transport = *transport;
#ifdef GYRE_HAVE_LIBSSL
  if (transport->operations == &gyre_transport_tls) gyre_tls_moved(&object->transport);
#endif
  transport->state = NULL;
  transport->input = transport->output = NULL;
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

struct gyre_transport *gyre_transport_of(VALUE self) {
  return &((struct object *)rb_check_typeddata(self, &object_type))->transport;
}

/* --- errors, waits --- */

NORETURN(static void fail(struct object *object, int error, const char *what));
static void fail(struct object *object, int error, const char *what) {
  const char *failed = NULL, *reason = NULL;
  if (!object->transport.handshaken) what = "TLS handshake with"; /* whichever call went on with it */
#ifdef GYRE_HAVE_LIBSSL
  if (object->transport.operations == &gyre_transport_tls && (error == -EPROTO || error == GYRE_TRUNCATED))
    reason = gyre_tls_error(&object->transport, &failed);
#endif
  if (!reason)
    rb_exc_raise(rb_syserr_new_str(-error, rb_enc_sprintf(rb_utf8_encoding(), "%s %" PRIsVALUE, what, object->peer)));
  VALUE message = rb_enc_sprintf(rb_utf8_encoding(), "%s %" PRIsVALUE ": %s%s", what, object->peer, failed, reason);
  const char *class = error == GYRE_TRUNCATED ? "Gyre::TLS::Truncated" : "Gyre::TLS::Error";
  rb_exc_raise(rb_class_new_instance(1, &message, rb_path2class(class)));
}

/* Until the descriptor is ready for what the side needs. Another thread may have closed it
 * meanwhile: then `get` raises. Where `timeout` is the rest of a limit for several waits, that is
 * `whole`. */
static struct object *wait_for(VALUE self, struct object *object, const struct gyre_side *side, VALUE timeout,
                               VALUE whole, const char *what) {
  unsigned wants = side->wants;
  if (object->transport.operations->held && object->transport.operations->held(&object->transport))
    wants |= GYRE_WRITABLE;
  bool ready = gyre_socket_wait(object->io, object->transport.fd, wants, gyre_duration_ns(timeout));
  object = get(self);
  if (!ready) {
    VALUE message = rb_enc_sprintf(rb_utf8_encoding(), "%s %" PRIsVALUE ": %s %" PRIsVALUE " s", what, object->peer,
                                   NIL_P(whole) ? "nothing for" : "not over after", NIL_P(whole) ? timeout : whole);
    rb_exc_raise(rb_class_new_instance(1, &message, rb_path2class("Gyre::TimeoutError")));
  }
  return object;
}

/* What a keyed loop's user waits for after -EAGAIN. */
static VALUE wait_symbol(const struct gyre_side *side) {
  return ID2SYM(rb_intern(side->wants == GYRE_WRITABLE ? "wait_writable" : "wait_readable"));
}

/* One reader and one writer of a transport wait for the descriptor; others wait for their turn,
 * for what comes may be theirs too. */
static VALUE in_turn(VALUE self, VALUE *turn, VALUE (*call)(VALUE), void *argument) {
  if (NIL_P(*turn)) RB_OBJ_WRITE(self, turn, rb_mutex_new());
  return rb_mutex_synchronize(*turn, call, (VALUE)argument);
}

static bool is_free(VALUE turn) { return NIL_P(turn) || !RTEST(rb_mutex_locked_p(turn)); }

static VALUE take(struct object *object, size_t length) {
  VALUE string = rb_str_new(gyre_transport_input(&object->transport), (long)length);
  gyre_transport_consume(&object->transport, length);
  return string;
}

/* --- reading --- */

static long limit_of(VALUE value) {
  long limit = NUM2LONG(value);
  if (limit <= 0) rb_raise(rb_eArgError, "limit must be positive, got %ld", limit);
  return limit;
}

struct reading {
  VALUE self;
  enum { READ_PARTIAL, READ_LENGTH, READ_ALL, READ_UNTIL } kind;
  bool waits;      /* in its turn */
  bool keep, rest; /* the separator is part of what is returned; what lacks it is returned at the end */
  size_t limit;    /* bytes that are wanted, or at most */
  VALUE separator;
  size_t seen;      /* of the input, without a separator */
  uint64_t seen_at; /* where in the stream the input began then */
};

static VALUE take_until(struct reading *reading, struct object *object) {
  struct gyre_transport *transport = &object->transport;
  size_t available = gyre_transport_available(transport), length = (size_t)RSTRING_LEN(reading->separator);
  uint64_t start = transport->received_bytes - available;
  if (start != reading->seen_at) reading->seen = 0; /* another reader has taken some */
  reading->seen_at = start;
  if (available - reading->seen >= length) {
    const char *input = gyre_transport_input(transport), *separator = RSTRING_PTR(reading->separator);
    const char *found = memmem(input + reading->seen, available - reading->seen, separator, length);
    size_t before = found ? (size_t)(found - input) : available - length + 1;
    if (before > reading->limit)
      rb_raise(rb_path2class("Gyre::ProtocolError"), "no end within %" PRIuSIZE " bytes from %" PRIsVALUE,
               reading->limit, object->peer);
    if (found) {
      VALUE string = rb_str_new(input, (long)(reading->keep ? before + length : before));
      gyre_transport_consume(transport, before + length);
      return string;
    }
    reading->seen = before;
  }
  return Qundef;
}

/* What is wanted, if the input has it; Qundef: more has to come. */
static VALUE take_complete(struct reading *reading, struct object *object) {
  size_t available = gyre_transport_available(&object->transport);
  switch (reading->kind) {
  case READ_PARTIAL: return available ? take(object, available < reading->limit ? available : reading->limit) : Qundef;
  case READ_LENGTH: return available >= reading->limit ? take(object, reading->limit) : Qundef;
  case READ_UNTIL: return take_until(reading, object);
  default: return Qundef;
  }
}

static VALUE take_at_end(struct reading *reading, struct object *object) {
  size_t available = gyre_transport_available(&object->transport);
  if (reading->kind == READ_ALL) return take(object, available);
  return available && (reading->kind != READ_UNTIL || reading->rest) ? take(object, available) : Qnil;
}

/* Qundef: it would have to wait, and may not. */
static VALUE read_on(VALUE argument) {
  struct reading *reading = (struct reading *)argument;
  struct object *object = get(reading->self);
  for (;;) {
    VALUE string = take_complete(reading, object);
    if (string != Qundef) return string;
    struct gyre_transport *transport = &object->transport;
    ssize_t count;
    if (reading->kind == READ_PARTIAL) { /* nothing of it need be kept */
      char *bytes = gyre_lent_plain();
      if (!bytes) rb_memerror();
      count =
          gyre_transport_receive(transport, bytes, reading->limit < GYRE_LENT_BYTES ? reading->limit : GYRE_LENT_BYTES);
      if (count > 0) return rb_str_new(bytes, (long)count);
    } else {
      count = gyre_transport_fill(transport);
    }
    if (count == 0) return take_at_end(reading, object);
    if (count > 0) continue;
    if (count != -EAGAIN) fail(object, (int)count, "receive from");
    if (!reading->waits) return Qundef;
    object = wait_for(reading->self, object, &transport->read, object->read_timeout, Qnil, "receive from");
  }
}

static VALUE read_by(struct reading *reading) {
  gyre_socket_give_way();
  struct object *object = get(reading->self);
  VALUE string = is_free(object->read_turn) ? read_on((VALUE)reading) : Qundef;
  if (string != Qundef) return string;
  reading->waits = true;
  return in_turn(reading->self, &object->read_turn, read_on, reading);
}

/*
 * What is there, at least a byte: waits for that only.
 *
 * @param limit [Integer] bytes at most
 * @return [String, nil] binary; nil at the end
 * @raise [TimeoutError] when nothing comes for read_timeout_s
 * @raise [SystemCallError, TLS::Error] the connection has failed
 * @raise [IOError] the transport is closed
 */
static VALUE object_read_partial(int argc, VALUE *argv, VALUE self) {
  rb_check_arity(argc, 0, 1);
  return read_by(&(struct reading){
      .self = self, .kind = READ_PARTIAL, .limit = argc ? (size_t)limit_of(argv[0]) : PART_BYTES, .separator = Qnil});
}

/*
 * What is there, without waiting: for protocols that are state machines on a {Gyre::Loop}. Makes
 * the TLS handshake where it is due.
 *
 * @param limit [Integer] bytes at most
 * @param buffer [String, nil] is filled and returned; its memory is used again
 * @return [String, Symbol, nil] binary; :wait_readable or :wait_writable when nothing is there yet;
 *   nil at the end
 * @raise [SystemCallError, TLS::Error] the connection has failed
 */
static VALUE object_read_available(int argc, VALUE *argv, VALUE self) {
  rb_check_arity(argc, 0, 2);
  size_t limit = argc ? (size_t)limit_of(argv[0]) : PART_BYTES;
  VALUE string = argc > 1 ? argv[1] : Qnil;
  struct object *object = get(self);
  size_t available = gyre_transport_available(&object->transport);
  if (available && available < limit) limit = available;
  if (NIL_P(string)) {
    if (available) return take(object, limit);
    if (limit > GYRE_LENT_BYTES) limit = GYRE_LENT_BYTES;
  } else {
    StringValue(string);
    rb_str_modify(string);
    rb_str_set_len(string, 0);
    rb_str_modify_expand(string, (long)limit);
    rb_enc_associate(string, rb_ascii8bit_encoding());
    object = get(self);
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
  if (count < 0) fail(object, (int)count, "receive from");
  if (NIL_P(string)) return rb_str_new(bytes, (long)count);
  rb_str_set_len(string, (long)count);
  return string;
}

/* @return [Boolean] whether bytes can be read of which the kernel does not report (decrypted, or
 *   read ahead) */
static VALUE object_pending_p(VALUE self) { return gyre_transport_pending(&get(self)->transport) ? Qtrue : Qfalse; }

/* @return [String] what was received and not read yet, binary; it stays to be read */
static VALUE object_unread(VALUE self) {
  struct object *object = get(self);
  return rb_str_new(gyre_transport_input(&object->transport), (long)gyre_transport_available(&object->transport));
}

/*
 * Reads so many bytes, fewer only at the end; without a length everything up to the end.
 *
 * @param length [Integer, nil] bytes
 * @return [String, nil] binary; nil at the end, "" for a length of 0 or without one
 * @raise [TimeoutError, SystemCallError, TLS::Error] as {#read_partial}
 */
static VALUE object_read(int argc, VALUE *argv, VALUE self) {
  rb_check_arity(argc, 0, 1);
  bool all = argc == 0 || NIL_P(argv[0]);
  long length = all ? 0 : NUM2LONG(argv[0]);
  if (length < 0) rb_raise(rb_eArgError, "negative length %ld given", length);
  return read_by(&(struct reading){
      .self = self, .kind = all ? READ_ALL : READ_LENGTH, .limit = (size_t)length, .separator = Qnil});
}

/* @api private Up to a separator; see transport.rb. */
static VALUE object_read_until(VALUE self, VALUE separator, VALUE limit, VALUE keep, VALUE rest) {
  long most = NUM2LONG(limit);
  if (most < 0) rb_raise(rb_eArgError, "negative limit %ld given", most);
  StringValue(separator);
  if (RSTRING_LEN(separator) == 0) rb_raise(rb_eArgError, "the separator is empty");
  separator = rb_str_new_frozen(separator);
  VALUE string = read_by(&(struct reading){.self = self,
                                           .kind = READ_UNTIL,
                                           .keep = RTEST(keep),
                                           .rest = RTEST(rest),
                                           .limit = (size_t)most,
                                           .separator = separator});
  RB_GC_GUARD(separator);
  return string;
}

/* --- writing --- */

struct flushing {
  VALUE self;
  int (*call)(struct gyre_transport *transport);
  uint64_t position; /* in the stream: up to there at least */
  bool waits;
};

/* Qundef: it would have to wait, and may not. */
static VALUE flush_on(VALUE argument) {
  struct flushing *flushing = (struct flushing *)argument;
  struct object *object = get(flushing->self);
  int error;
  while ((error = flushing->call(&object->transport)) == -EAGAIN) {
    struct gyre_transport *transport = &object->transport;
    bool held = gyre_transport_unsent(transport) > gyre_bytes_held(transport->output);
    if (transport->sent_bytes >= flushing->position && !held) break;
    if (!flushing->waits) return Qundef;
    object = wait_for(flushing->self, object, &transport->write, object->write_timeout, Qnil, "send to");
  }
  if (error < 0 && error != -EAGAIN) fail(object, error, "send to");
  return Qnil;
}

/* Waits until what was written is sent, but for the last `rest` bytes. An exception leaves
 * `writers` counted: not all of it may ever be sent. */
static void flush_but(VALUE self, struct object *object, int (*call)(struct gyre_transport *), uint32_t rest) {
  struct flushing flushing = {.self = self,
                              .call = call,
                              .position =
                                  object->transport.sent_bytes + gyre_bytes_held(object->transport.output) - rest};
  if (call == gyre_transport_end) flushing.position = UINT64_MAX;
  if (flush_on((VALUE)&flushing) != Qundef) return;
  flushing.waits = true;
  object->writers++;
  in_turn(self, &object->write_turn, flush_on, &flushing);
  object->writers--;
}

static void flush(VALUE self, struct object *object, int (*call)(struct gyre_transport *)) {
  flush_but(self, object, call, 0);
}

/* Sends as far as that goes at once, without a copy; bytes. */
static size_t send_pieces(struct object *object, const VALUE *strings, int count) {
  struct iovec pieces[PIECES];
  if (count > PIECES) count = PIECES;
  for (int i = 0; i < count; i++) pieces[i] = (struct iovec){RSTRING_PTR(strings[i]), (size_t)RSTRING_LEN(strings[i])};
  ssize_t sent = gyre_transport_sendv(&object->transport, pieces, count);
  if (sent < 0 && sent != -EAGAIN) fail(object, (int)sent, "send to");
  return sent > 0 ? (size_t)sent : 0;
}

/*
 * Sends the bytes of what is given, as one: those of another fiber or thread come before or behind
 * them. Returns when the kernel has them. What an exception (a timeout, a stop) interrupts stays
 * queued, and is sent with what is written next.
 *
 * @param strings [Array<String>]
 * @return [Integer] bytes
 * @raise [TimeoutError] when the peer takes nothing for write_timeout_s
 * @raise [SystemCallError, TLS::Error] the connection has failed
 */
static VALUE object_write(int argc, VALUE *argv, VALUE self) {
  VALUE memory;
  VALUE *strings = ALLOCV_N(VALUE, memory, argc + 1);
  size_t bytes = 0;
  gyre_socket_give_way();
  for (int i = 0; i < argc; i++) {
    strings[i] = rb_obj_as_string(argv[i]);
    bytes += (size_t)RSTRING_LEN(strings[i]);
  }
  struct object *object = get(self);
  struct gyre_transport *transport = &object->transport;
  size_t sent = bytes && gyre_transport_unsent(transport) == 0 ? send_pieces(object, strings, argc) : 0, skip = sent;
  for (int i = 0; i < argc; i++) {
    size_t length = (size_t)RSTRING_LEN(strings[i]), part = skip < length ? skip : length;
    skip -= part;
    int error = gyre_transport_write(transport, RSTRING_PTR(strings[i]) + part, length - part);
    if (error < 0) fail(object, error, "send to");
  }
  if (gyre_transport_unsent(transport)) flush(self, object, gyre_transport_flush);
  ALLOCV_END(memory);
  return SIZET2NUM(bytes);
}

/*
 * Has a string sent behind what was written before. Within a Gyre scheduler it does not wait: what
 * the tasks of a turn give leaves at its end together, and an error is raised by the next call that
 * writes or flushes. Only with more than 64 KB unsent it waits, until 16 KB are. Elsewhere it is
 * {#write}.
 *
 * @param string [String]
 * @return [self]
 * @raise [TimeoutError, SystemCallError, TLS::Error] as {#write}
 */
static VALUE object_append(VALUE self, VALUE string) {
  struct gyre_scheduler *scheduler = gyre_socket_scheduler();
  if (!scheduler) {
    object_write(1, &string, self);
    return self;
  }
  string = rb_obj_as_string(string);
  struct object *object = get(self);
  int error = gyre_transport_write(&object->transport, RSTRING_PTR(string), (size_t)RSTRING_LEN(string));
  RB_GC_GUARD(string);
  if (error < 0) fail(object, error, "send to");
  if (!object->late) {
    object->late = ALLOC(struct gyre_late_send);
    gyre_late_send_init(object->late, &object->transport, object->io);
  }
  gyre_late_send_begin(object->late, self, scheduler);
  if (gyre_bytes_held(object->transport.output) > HIGH_WATER) flush_but(self, object, gyre_transport_flush, LOW_WATER);
  return self;
}

/*
 * Waits until all that was written is sent.
 *
 * @return [self]
 * @raise [TimeoutError, SystemCallError, TLS::Error] as {#write}
 */
static VALUE object_flush(VALUE self) {
  flush(self, get(self), gyre_transport_flush);
  return self;
}

/*
 * Sends bytes of a file as they are, by sendfile(2) where that is possible.
 *
 * @param file [IO] a regular file; its position does not matter and stays
 * @param offset [Integer] bytes
 * @param length [Integer] bytes
 * @return [Integer] bytes; fewer only when the file ends before
 * @raise [TimeoutError, SystemCallError, TLS::Error] as {#write}
 */
static VALUE object_write_file(VALUE self, VALUE file, VALUE offset, VALUE length) {
  int64_t from = NUM2LL(offset);
  uint64_t size = NUM2ULL(length), moved = 0;
  if (from < 0) rb_raise(rb_eArgError, "negative offset %" PRId64 " given", from);
  file = rb_io_get_io(file);
  struct object *object = get(self);
  while (moved < size) {
    size_t piece = size - moved < FILE_PIECE_BYTES ? (size_t)(size - moved) : FILE_PIECE_BYTES;
    ssize_t count = gyre_transport_sendfile(&object->transport, rb_io_descriptor(file), from + (int64_t)moved, piece);
    if (count == 0) break;
    if (count > 0) {
      moved += (uint64_t)count;
    } else if (count == -EAGAIN) {
      object->writers++;
      object = wait_for(self, object, &object->transport.write, object->write_timeout, Qnil, "send to");
      object->writers--;
    } else {
      fail(object, (int)count, "send to");
    }
  }
  flush(self, object, gyre_transport_flush);
  RB_GC_GUARD(file);
  return ULL2NUM(moved);
}

/*
 * Ends the stream for the peer, behind what is queued. It can still be read from.
 *
 * @return [nil]
 * @raise [TimeoutError, SystemCallError, TLS::Error] as {#write}
 */
static VALUE object_close_write(VALUE self) {
  flush(self, get(self), gyre_transport_end);
  return Qnil;
}

/* --- writing without waiting --- */

static VALUE available(struct object *object, const struct gyre_side *side, int error, const char *what) {
  if (error == -EAGAIN) return wait_symbol(side);
  if (error < 0) fail(object, error, what);
  return Qtrue;
}

/*
 * Takes bytes to be sent by {#flush_available}. Never waits and sends nothing by itself.
 *
 * @param bytes [String]
 * @return [Integer] as {#unsent_bytes}
 * @raise [SystemCallError] the write side has ended or failed
 */
static VALUE object_queue(VALUE self, VALUE bytes) {
  StringValue(bytes);
  struct object *object = get(self);
  int error = gyre_transport_write(&object->transport, RSTRING_PTR(bytes), (size_t)RSTRING_LEN(bytes));
  RB_GC_GUARD(bytes);
  if (error < 0) fail(object, error, "send to");
  return SIZET2NUM(gyre_transport_unsent(&object->transport));
}

/*
 * Sends what is queued, as far as that goes at once.
 *
 * @return [true, Symbol] true when the kernel has all; else :wait_writable or :wait_readable
 * @raise [SystemCallError, TLS::Error] the connection has failed
 */
static VALUE object_flush_available(VALUE self) {
  struct object *object = get(self);
  int error = gyre_transport_flush(&object->transport);
  return available(object, &object->transport.write, error, "send to");
}

/*
 * {#close_write} without waiting: call it, or {#flush_available}, again until it returns true.
 *
 * @return [true, Symbol] as {#flush_available}
 * @raise [SystemCallError, TLS::Error] as {#flush_available}
 */
static VALUE object_finish_available(VALUE self) {
  struct object *object = get(self);
  int error = gyre_transport_end(&object->transport);
  return available(object, &object->transport.write, error, "send to");
}

/* @return [Integer] bytes that were written or queued and are not in the kernel; those that TLS
 *   has encrypted count as they are */
static VALUE object_unsent_bytes(VALUE self) { return SIZET2NUM(gyre_transport_unsent(&get(self)->transport)); }

/* @return [String] what is queued and not sent, binary */
static VALUE object_unsent(VALUE self) {
  const struct gyre_bytes *output = get(self)->transport.output;
  return rb_str_new(output ? output->bytes + output->offset : NULL, (long)gyre_bytes_held(output));
}

/*
 * What a loop has to watch for, so that the calls that never wait can go on.
 *
 * @example loop.watch_io(key, transport.to_io, **transport.wants)
 * @param read [Boolean] whether the protocol takes input at present
 * @return [Hash{Symbol => Boolean}, nil] read and write, as Gyre::Loop#watch_io takes them; one of
 *   three frozen Hashes. nil: nothing is to be waited for
 */
static VALUE object_wants(int argc, VALUE *argv, VALUE self) {
  VALUE options, read = Qundef;
  static ID keyword;
  if (!keyword) keyword = rb_intern("read");
  rb_scan_args(argc, argv, "0:", &options);
  if (!NIL_P(options)) rb_get_kwargs(options, &keyword, 0, 1, &read);
  const struct gyre_transport *transport = &get(self)->transport;
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

/* --- life --- */

/*
 * @param io [Socket] connected; closed with the transport
 * @param peer [String] its address, for messages
 */
static VALUE object_initialize(VALUE self, VALUE io, VALUE peer) {
  struct object *object = rb_check_typeddata(self, &object_type);
  peer = rb_obj_as_string(peer);
  int fd = rb_io_descriptor(io);
  int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || (!(flags & O_NONBLOCK) && fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)) rb_sys_fail("fcntl");
  if (!NIL_P(object->io)) rb_raise(rb_eRuntimeError, "already initialized");
  gyre_transport_init(&object->transport, fd, &gyre_transport_plain);
  RB_OBJ_WRITE(self, &object->io, io);
  RB_OBJ_WRITE(self, &object->peer, rb_str_new_frozen(peer));
  return self;
}

/*
 * Closes the socket and sends nothing: neither what is queued nor, with TLS, an end. For a forked
 * child's copy of its parent's transport, and for a peer that is to notice that the stream was cut.
 *
 * @return [nil]
 */
static VALUE object_abandon(VALUE self) {
  struct object *object = rb_check_typeddata(self, &object_type);
  if (NIL_P(object->io)) return Qnil;
  if (object->late) gyre_late_send_stop(object->late);
  rb_io_close(object->io);
  gyre_transport_free(&object->transport);
  object->transport.fd = -1;
  return Qnil;
}

/* @api private Whether a write was interrupted, or waits: then not all may be sent before the
 *   end. */
static VALUE object_stuck_p(VALUE self) {
  return ((struct object *)rb_check_typeddata(self, &object_type))->writers ? Qtrue : Qfalse;
}

/* @return [Socket] */
static VALUE object_io(VALUE self) { return ((struct object *)rb_check_typeddata(self, &object_type))->io; }
/* @return [String] the peer's address, for messages */
static VALUE object_peer(VALUE self) { return ((struct object *)rb_check_typeddata(self, &object_type))->peer; }

/* @return [Numeric, nil] how long a read waits for a byte; nil: without end */
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

/* @return [Numeric, nil] how long a write waits for the peer to take a byte; nil: without end */
static VALUE object_write_timeout(VALUE self) {
  return ((struct object *)rb_check_typeddata(self, &object_type))->write_timeout;
}

/* @param seconds [Numeric, nil] how long a write waits for the peer to take a byte; nil: without
 *   end */
static VALUE object_set_write_timeout(VALUE self, VALUE seconds) {
  struct object *object = rb_check_typeddata(self, &object_type);
  (void)gyre_duration_ns(seconds);
  RB_OBJ_WRITE(self, &object->write_timeout, seconds);
  return seconds;
}

/* @return [Boolean] whether TLS is under it */
static VALUE object_tls_p(VALUE self) {
  return ((struct object *)rb_check_typeddata(self, &object_type))->transport.operations == &gyre_transport_plain
             ? Qfalse
             : Qtrue;
}

#ifdef GYRE_HAVE_LIBSSL
/* @api private */
static VALUE object_begin_tls(VALUE self, VALUE context, VALUE name) {
  const char *text = NIL_P(name) ? NULL : StringValueCStr(name);
  struct object *object = get(self);
  if (object->transport.operations != &gyre_transport_plain) rb_raise(rb_eRuntimeError, "TLS has begun already");
  int error = gyre_tls_start(&object->transport, gyre_tls_context_get(context), text, StringValueCStr(object->peer));
  if (error < 0) rb_memerror();
  RB_OBJ_WRITE(self, &object->context, context);
  RB_GC_GUARD(name);
  return self;
}
#endif

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* @api private Waits for the handshake's end, so many seconds in all. */
static VALUE object_handshake(VALUE self, VALUE timeout) {
  struct object *object = get(self);
  int64_t duration_ns = gyre_duration_ns(timeout), end_ns = now_ns() + duration_ns;
  int error;
  object->writers++; /* an exception leaves it: nothing can be sent before the end */
  while ((error = gyre_transport_handshake(&object->transport)) == -EAGAIN) {
    int64_t left_ns = end_ns - now_ns();
    VALUE left = duration_ns < 0 ? Qnil : DBL2NUM(left_ns > 0 ? (double)left_ns / 1e9 : 0.0);
    object = wait_for(self, object, &object->transport.read, left, timeout, "TLS handshake with");
  }
  object->writers--;
  if (error < 0) fail(object, error, "TLS handshake with");
  return self;
}

/*
 * Goes on with the TLS handshake, as far as that goes at once. The calls that read and write do it,
 * too.
 *
 * @return [true, Symbol] true when it is over, or there is none; else :wait_readable or
 *   :wait_writable
 * @raise [SystemCallError, TLS::Error] it has failed
 */
static VALUE object_handshake_available(VALUE self) {
  struct object *object = get(self);
  int error = gyre_transport_handshake(&object->transport);
  return available(object, &object->transport.read, error, "TLS handshake with");
}

static VALUE wants(bool read, bool write) {
  VALUE hash = rb_hash_new();
  rb_hash_aset(hash, ID2SYM(rb_intern("read")), read ? Qtrue : Qfalse);
  rb_hash_aset(hash, ID2SYM(rb_intern("write")), write ? Qtrue : Qfalse);
  rb_gc_register_mark_object(hash);
  return rb_obj_freeze(hash);
}

void gyre_init_net_transport(void) {
  transport_class = rb_define_class_under(gyre_mGyre, "Transport", rb_cObject);
  rb_gc_register_mark_object(transport_class);
  wants_read = wants(true, false);
  wants_write = wants(false, true);
  wants_both = wants(true, true);
  rb_define_alloc_func(transport_class, object_allocate);
  rb_define_method(transport_class, "initialize", object_initialize, 2);
  rb_define_method(transport_class, "to_io", object_io, 0);
  rb_define_method(transport_class, "peer", object_peer, 0);
  rb_define_method(transport_class, "read_partial", object_read_partial, -1);
  rb_define_method(transport_class, "read", object_read, -1);
  rb_define_private_method(transport_class, "take_until", object_read_until, 4);
  rb_define_method(transport_class, "read_available", object_read_available, -1);
  rb_define_method(transport_class, "pending?", object_pending_p, 0);
  rb_define_method(transport_class, "unread", object_unread, 0);
  rb_define_method(transport_class, "write", object_write, -1);
  rb_define_method(transport_class, "<<", object_append, 1);
  rb_define_method(transport_class, "flush", object_flush, 0);
  rb_define_method(transport_class, "write_file", object_write_file, 3);
  rb_define_method(transport_class, "queue", object_queue, 1);
  rb_define_method(transport_class, "flush_available", object_flush_available, 0);
  rb_define_method(transport_class, "finish_available", object_finish_available, 0);
  rb_define_method(transport_class, "handshake_available", object_handshake_available, 0);
  rb_define_method(transport_class, "unsent_bytes", object_unsent_bytes, 0);
  rb_define_method(transport_class, "unsent", object_unsent, 0);
  rb_define_method(transport_class, "wants", object_wants, -1);
  rb_define_method(transport_class, "abandon", object_abandon, 0);
  rb_define_private_method(transport_class, "stuck?", object_stuck_p, 0);
  rb_define_private_method(transport_class, "handshake", object_handshake, 1);
  rb_define_method(transport_class, "close_write", object_close_write, 0);
  rb_define_method(transport_class, "read_timeout_s", object_read_timeout, 0);
  rb_define_method(transport_class, "read_timeout_s=", object_set_read_timeout, 1);
  rb_define_method(transport_class, "write_timeout_s", object_write_timeout, 0);
  rb_define_method(transport_class, "write_timeout_s=", object_set_write_timeout, 1);
  rb_define_method(transport_class, "tls?", object_tls_p, 0);
#ifdef GYRE_HAVE_LIBSSL
  rb_define_private_method(transport_class, "start", object_begin_tls, 2);
#endif
}
