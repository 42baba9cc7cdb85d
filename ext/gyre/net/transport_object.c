/* Gyre::Transport, for fibers and threads. Methods wait by their thread's scheduler; if there is
 * none, they block only the thread. Bytes move under the GVL: any thread may call any method. */
#include "net/transport_object.h"
#include "fiber/ruby_io.h"
#include "net/net.h"
#include "net/socket_wait.h"
#include "net/tls.h"

#include <fcntl.h>
#include <ruby/encoding.h>

#define PART_BYTES 16384
#define PIECES 16
#define HIGH_WATER (64 * 1024) /* unsent bytes at which << waits */
#define LOW_WATER (16 * 1024)  /* unsent bytes at which << stops waiting */
#define FILE_PIECE_BYTES (1 << 20)
#define RECEPTIONS 16 /* maximum receives of a reader that has not taken its turn */

static VALUE transport_class;

/* --- memory --- */

static void object_mark(void *opaque) {
  struct gyre_transport_object *object = opaque;
  GYRE_MARK(object->io, object->peer, object->judge, object->read_timeout, object->write_timeout, object->read_turn,
            object->write_turn);
  if (object->sends && object->sends->scheduler) rb_gc_mark(object->sends->scheduler->self);
}

static void object_free(void *opaque) {
  struct gyre_transport_object *object = opaque;
  if (object->sends) gyre_deferred_cancel(&object->sends->deferred); /* its scheduler is garbage */
  xfree(object->sends);
  gyre_transport_free(&object->transport);
  xfree(object);
}

static size_t object_size(const void *opaque) {
  const struct gyre_transport_object *object = opaque;
  const struct gyre_bytes *input = object->transport.input, *output = object->transport.output;
  return sizeof(*object) + (object->sends ? sizeof(*object->sends) : 0) + (input ? input->capacity : 0) +
         (output ? output->capacity : 0);
}

GYRE_TYPE(object_type, "Gyre::Transport", object_mark, object_free, object_size, RUBY_TYPED_FREE_IMMEDIATELY);

static VALUE object_allocate(VALUE class) {
  struct gyre_transport_object *object;
  VALUE self = TypedData_Make_Struct(class, struct gyre_transport_object, &object_type, object);
  object->transport.fd = -1;
  object->io = object->peer = object->read_timeout = object->write_timeout = Qnil;
  object->read_turn = object->write_turn = object->judge = Qnil;
  return self;
}

/* Works with a closed transport, too. */
static struct gyre_transport_object *peek(VALUE self) { return rb_check_typeddata(self, &object_type); }

struct gyre_transport_object *gyre_transport_object_get(VALUE self) {
  struct gyre_transport_object *object = peek(self);
  if (NIL_P(object->io)) rb_raise(rb_eIOError, "uninitialized transport");
  int fd = rb_io_descriptor(object->io); /* raises IOError */
  if (fd != object->transport.fd) rb_raise(rb_eIOError, "the transport's socket was reopened");
  if (object->sends) gyre_deferred_send_check(object->sends);
  return object;
}

struct gyre_transport *gyre_transport_of(VALUE self) {
  return &peek(self)->transport;
}

/* --- errors, waits --- */

void gyre_transport_object_fail(struct gyre_transport_object *object, int error, const char *what) {
  const char *failed = NULL, *reason = NULL;
  if (!object->transport.handshaken) what = "TLS handshake with"; /* any call may have continued it */
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

_Noreturn static void time_out(const struct gyre_transport_object *object, VALUE timeout, VALUE whole,
                               const char *what) {
  VALUE seconds = rb_funcall(NIL_P(whole) ? timeout : whole, rb_intern("round"), 1, INT2FIX(3));
  VALUE message = rb_enc_sprintf(rb_utf8_encoding(), "%s %" PRIsVALUE ": %s %" PRIsVALUE " s", what, object->peer,
                                 NIL_P(whole) ? "nothing for" : "not over after", seconds);
  rb_exc_raise(rb_class_new_instance(1, &message, rb_path2class("Gyre::TimeoutError")));
}

/* Waits for the event that the side wants. Raises if another thread has closed the descriptor.
 * `timeout`: seconds left; `whole`: the full limit, or nil. */
static struct gyre_transport_object *wait_for(VALUE self, struct gyre_transport_object *object,
                                              const struct gyre_side *side, VALUE timeout, VALUE whole,
                                              const char *what) {
  unsigned wants = side->wants;
  if (object->transport.operations->held && object->transport.operations->held(&object->transport))
    wants |= GYRE_WRITABLE;
  bool ready = gyre_socket_wait(object->io, object->transport.fd, wants, gyre_duration_ns(timeout));
  object = gyre_transport_object_get(self);
  if (!ready) time_out(object, timeout, whole, what);
  return object;
}

/* --- turns: one reader and one writer wait for the descriptor, other callers for their turn --- */

struct turn {
  VALUE self, turn;
  VALUE timeout; /* seconds, or nil */
  bool waited;   /* the wait ended without an exception */
};

static VALUE turn_wait(VALUE argument) {
  struct turn *turn = (struct turn *)argument;
  VALUE in_time = rb_funcall(turn->turn, rb_intern("wait"), 1, turn->timeout);
  turn->waited = true;
  return in_time;
}

/* If an exception has ended the wait, passes on a wake-up that may have come before it. */
static VALUE turn_waited(VALUE argument) {
  struct turn *turn = (struct turn *)argument;
  struct gyre_transport_object *object = peek(turn->self);
  object->turn_waiters--;
  if (!turn->waited && object->turn_waiters) rb_funcall(turn->turn, rb_intern("pass"), 0);
  return Qnil;
}

static VALUE turn_release(VALUE argument) {
  struct turn *turn = (struct turn *)argument;
  return peek(turn->self)->turn_waiters ? rb_funcall(turn->turn, rb_intern("release"), 0) : rb_mutex_unlock(turn->turn);
}

/* Times out if no byte has moved within the limit of one wait. A woken caller always tries to take
 * the turn, because its release wakes the next caller. */
static void turn_take(VALUE self, VALUE turn, bool writes) {
  struct gyre_transport_object *object = peek(self);
  while (!RTEST(rb_mutex_trylock(turn))) {
    const uint64_t *bytes = writes ? &object->transport.sent_bytes : &object->transport.received_bytes, before = *bytes;
    VALUE timeout = writes ? object->write_timeout : object->read_timeout;
    struct turn waiting = {self, turn, timeout, false};
    object->turn_waiters++;
    bool in_time = RTEST(rb_ensure(turn_wait, (VALUE)&waiting, turn_waited, (VALUE)&waiting));
    if (!in_time && *bytes == before) time_out(object, timeout, Qnil, writes ? "send to" : "receive from");
  }
}

static VALUE in_turn(VALUE self, bool writes, VALUE (*call)(VALUE), void *argument) {
  struct gyre_transport_object *object = gyre_transport_object_get(self);
  VALUE *place = writes ? &object->write_turn : &object->read_turn;
  if (NIL_P(*place)) {
    VALUE made = rb_class_new_instance(0, NULL, rb_path2class("Gyre::Transport::Turn"));
    if (NIL_P(*place)) RB_OBJ_WRITE(self, place, made); /* another thread may have made it */
  }
  struct turn turn = {self, *place, Qnil, false};
  turn_take(self, turn.turn, writes);
  return rb_ensure(call, (VALUE)argument, turn_release, (VALUE)&turn);
}

static bool is_free(VALUE turn) { return NIL_P(turn) || !RTEST(rb_mutex_locked_p(turn)); }

/* --- reading --- */

long gyre_transport_object_limit(VALUE value) {
  long limit = NUM2LONG(value);
  if (limit <= 0) rb_raise(rb_eArgError, "limit must be positive, got %ld", limit);
  return limit;
}

VALUE gyre_transport_object_take(struct gyre_transport_object *object, size_t length) {
  VALUE string = rb_str_new(gyre_transport_input(&object->transport), (long)length);
  gyre_transport_consume(&object->transport, length);
  return string;
}

struct reading {
  VALUE self;
  enum { READ_PARTIAL, READ_LENGTH, READ_ALL, READ_UNTIL } kind;
  bool waits;      /* the reader has its turn and may wait */
  int receptions;  /* receives of a reader that does not have its turn */
  bool keep, rest; /* the result keeps the separator; a rest at the end is returned */
  size_t limit;    /* number of bytes: exact for READ_LENGTH, else maximum */
  VALUE separator;
  size_t seen;      /* input bytes known to have no separator */
  uint64_t seen_at; /* stream position of the input's start */
};

static VALUE take_until(struct reading *reading, struct gyre_transport_object *object) {
  struct gyre_transport *transport = &object->transport;
  size_t available = gyre_transport_available(transport), length = (size_t)RSTRING_LEN(reading->separator);
  uint64_t start = transport->received_bytes - available;
  if (start != reading->seen_at) reading->seen = 0; /* another reader has taken bytes */
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

/* Returns the result, or Qundef if incomplete. */
static VALUE take_complete(struct reading *reading, struct gyre_transport_object *object) {
  size_t available = gyre_transport_available(&object->transport);
  switch (reading->kind) {
  case READ_PARTIAL:
    return available ? gyre_transport_object_take(object, available < reading->limit ? available : reading->limit)
                     : Qundef;
  case READ_LENGTH: return available >= reading->limit ? gyre_transport_object_take(object, reading->limit) : Qundef;
  case READ_UNTIL: return take_until(reading, object);
  default: return Qundef;
  }
}

static VALUE take_at_end(struct reading *reading, struct gyre_transport_object *object) {
  size_t available = gyre_transport_available(&object->transport);
  if (reading->kind == READ_ALL) return gyre_transport_object_take(object, available);
  return available && (reading->kind != READ_UNTIL || reading->rest) ? gyre_transport_object_take(object, available)
                                                                     : Qnil;
}

/* Receives once: READ_PARTIAL to `string`, other kinds to the input. Returns bytes or -errno. */
static ssize_t receive(struct reading *reading, struct gyre_transport_object *object, VALUE *string) {
  struct gyre_transport *transport = &object->transport;
  size_t most = GYRE_LENT_BYTES;
  ssize_t count;
  if (reading->kind == READ_PARTIAL) {
    char *bytes = gyre_lent_plain();
    if (!bytes) rb_memerror();
    if (reading->limit < most) most = reading->limit;
    count = gyre_transport_receive(transport, bytes, most);
    if (count > 0) *string = rb_str_new(bytes, (long)count);
  } else {
    count = gyre_transport_fill(transport);
  }
  if (count > 0 && gyre_transport_emptied(transport, (size_t)count, most))
    gyre_socket_drained(object->io, transport->fd, GYRE_READABLE);
  return count;
}

bool gyre_transport_object_is_drained(struct gyre_transport_object *object) {
  struct gyre_transport *transport = &object->transport;
  if (!transport->handshaken || transport->read.state != GYRE_SIDE_OPEN || gyre_transport_pending(transport) ||
      !gyre_socket_is_drained(object->io, transport->fd, GYRE_READABLE))
    return false;
  transport->read.wants = GYRE_READABLE;
  return true;
}

/* Reads until the result is complete. If the reader does not have its turn, returns Qundef instead
 * of waiting or yielding, because another reader could take its bytes. */
static VALUE read_on(VALUE argument) {
  struct reading *reading = (struct reading *)argument;
  struct gyre_transport_object *object = gyre_transport_object_get(reading->self);
  bool waited = false;
  for (;;) {
    VALUE string = take_complete(reading, object);
    if (string != Qundef) return string;
    ssize_t count = !waited && gyre_transport_object_is_drained(object) ? -EAGAIN : receive(reading, object, &string);
    if (string != Qundef) return string;
    if (count == 0) return take_at_end(reading, object);
    if (count > 0) {
      waited = false;
      if (!reading->waits && ++reading->receptions == RECEPTIONS) return Qundef;
      if (reading->waits) gyre_socket_give_way();
      object = gyre_transport_object_get(reading->self);
      continue;
    }
    if (count != -EAGAIN) gyre_transport_object_fail(object, (int)count, "receive from");
    if (!reading->waits) return Qundef;
    object = wait_for(reading->self, object, &object->transport.read, object->read_timeout, Qnil, "receive from");
    waited = true;
  }
}

static VALUE read_by(struct reading *reading) {
  gyre_socket_give_way();
  struct gyre_transport_object *object = gyre_transport_object_get(reading->self);
  VALUE string = is_free(object->read_turn) ? read_on((VALUE)reading) : Qundef;
  if (string != Qundef) return string;
  reading->waits = true;
  return in_turn(reading->self, false, read_on, reading);
}

/* Reads available bytes. Waits only if there are none.
 * @param limit [Integer] bytes at most
 * @return [String, nil] binary; nil at the end
 * @raise [TimeoutError] if nothing comes for read_timeout_s
 * @raise [SystemCallError, TLS::Error] the connection has failed
 * @raise [IOError] the transport is closed */
static VALUE object_read_partial(int argc, VALUE *argv, VALUE self) {
  rb_check_arity(argc, 0, 1);
  return read_by(&(struct reading){.self = self,
                                   .kind = READ_PARTIAL,
                                   .limit = argc ? (size_t)gyre_transport_object_limit(argv[0]) : PART_BYTES,
                                   .separator = Qnil});
}

/* Reads `length` bytes, fewer only at the end. If `length` is nil, reads all bytes up to the end.
 * @param length [Integer, nil] bytes
 * @return [String, nil] binary; at the end nil, or "" if `length` is 0 or nil
 * @raise [TimeoutError, SystemCallError, TLS::Error] as {#read_partial} */
static VALUE object_read(int argc, VALUE *argv, VALUE self) {
  rb_check_arity(argc, 0, 1);
  bool all = argc == 0 || NIL_P(argv[0]);
  long length = all ? 0 : NUM2LONG(argv[0]);
  if (length < 0) rb_raise(rb_eArgError, "negative length %ld given", length);
  return read_by(&(struct reading){
      .self = self, .kind = all ? READ_ALL : READ_LENGTH, .limit = (size_t)length, .separator = Qnil});
}

/* @api private See transport.rb. */
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
  uint64_t position; /* send everything up to this stream position */
  bool waits;
};

/* Returns the number of sent bytes, except those of files, which are never queued. */
static uint64_t queued_bytes_sent(const struct gyre_transport_object *object) {
  return object->transport.sent_bytes - object->file_bytes;
}

/* Returns Qundef instead of waiting if the writer does not have its turn. */
static VALUE flush_on(VALUE argument) {
  struct flushing *flushing = (struct flushing *)argument;
  struct gyre_transport_object *object = gyre_transport_object_get(flushing->self);
  int error;
  while ((error = flushing->call(&object->transport)) == -EAGAIN) {
    struct gyre_transport *transport = &object->transport;
    bool held = gyre_transport_unsent(transport) > gyre_bytes_held(transport->output);
    if (queued_bytes_sent(object) >= flushing->position && !held) break;
    if (!flushing->waits) return Qundef;
    object = wait_for(flushing->self, object, &transport->write, object->write_timeout, Qnil, "send to");
  }
  if (error < 0 && error != -EAGAIN) gyre_transport_object_fail(object, error, "send to");
  return Qnil;
}

/* Waits until at most `rest` of the queued bytes are unsent. After an exception, `writers` still
 * counts this writer, because its bytes may never leave. */
static void flush(VALUE self, struct gyre_transport_object *object, int (*call)(struct gyre_transport *),
                  uint32_t rest) {
  struct flushing flushing = {.self = self,
                              .call = call,
                              .position = queued_bytes_sent(object) + gyre_bytes_held(object->transport.output) - rest};
  if (call == gyre_transport_end) flushing.position = UINT64_MAX;
  if (flush_on((VALUE)&flushing) != Qundef) return;
  flushing.waits = true;
  object->writers++;
  in_turn(self, true, flush_on, &flushing);
  object->writers--;
}

/* Fails the write side after a truncated message. */
static void cut(struct gyre_transport *transport, int error) {
  if (transport->write.state != GYRE_SIDE_OPEN) return;
  transport->write.state = GYRE_SIDE_FAILED;
  transport->write.error = (int16_t)error;
}

/* Sends as many bytes as the socket takes, without queuing them. Returns their number. */
static size_t send_pieces(struct gyre_transport_object *object, const VALUE *strings, int count) {
  struct iovec pieces[PIECES];
  if (count > PIECES) count = PIECES;
  for (int i = 0; i < count; i++) pieces[i] = (struct iovec){RSTRING_PTR(strings[i]), (size_t)RSTRING_LEN(strings[i])};
  ssize_t sent = gyre_transport_sendv(&object->transport, pieces, count);
  if (sent < 0 && sent != -EAGAIN) gyre_transport_object_fail(object, (int)sent, "send to");
  return sent > 0 ? (size_t)sent : 0;
}

/* Sends the strings as one message, and waits until the kernel has taken them. After an exception
 * (a timeout, a stop) the rest leaves with the next write.
 * @param strings [Array<String>]
 * @return [Integer] bytes
 * @raise [TimeoutError] if the peer takes nothing for write_timeout_s
 * @raise [SystemCallError, TLS::Error] the connection has failed */
static VALUE object_write(int argc, VALUE *argv, VALUE self) {
  VALUE memory;
  VALUE *strings = ALLOCV_N(VALUE, memory, argc + 1);
  size_t bytes = 0;
  gyre_socket_give_way();
  for (int i = 0; i < argc; i++) {
    strings[i] = rb_obj_as_string(argv[i]);
    bytes += (size_t)RSTRING_LEN(strings[i]);
  }
  struct gyre_transport_object *object = gyre_transport_object_get(self);
  struct gyre_transport *transport = &object->transport;
  if (bytes > GYRE_BYTES_LIMIT - gyre_bytes_held(transport->output))
    gyre_transport_object_fail(object, -ENOBUFS, "send to"); /* before any byte is sent */
  size_t sent = bytes && gyre_transport_unsent(transport) == 0 ? send_pieces(object, strings, argc) : 0, skip = sent;
  for (int i = 0; i < argc; i++) {
    size_t length = (size_t)RSTRING_LEN(strings[i]), part = skip < length ? skip : length;
    skip -= part;
    int error = gyre_transport_write(transport, RSTRING_PTR(strings[i]) + part, length - part);
    if (error < 0 && (sent || i > 0)) cut(transport, error);
    if (error < 0) gyre_transport_object_fail(object, error, "send to");
  }
  if (gyre_transport_unsent(transport)) flush(self, object, gyre_transport_flush, 0);
  ALLOCV_END(memory);
  return SIZET2NUM(bytes);
}

static struct gyre_transport_object *append(VALUE self, VALUE string, struct gyre_scheduler *scheduler) {
  string = rb_obj_as_string(string);
  struct gyre_transport_object *object = gyre_transport_object_get(self);
  int error = gyre_transport_write(&object->transport, RSTRING_PTR(string), (size_t)RSTRING_LEN(string));
  RB_GC_GUARD(string);
  if (error < 0) gyre_transport_object_fail(object, error, "send to");
  if (!object->sends) {
    object->sends = ALLOC(struct gyre_deferred_send);
    gyre_deferred_send_init(object->sends, &object->transport, object->io);
    object->sends->place = &object->sends;
  }
  gyre_deferred_send_begin(object->sends, self, scheduler);
  return object;
}

/* Queues a string. In a Gyre scheduler, strings of a turn leave together at its end, and the next
 * write or flush raises their errors. Waits if more than 64 KB are unsent, until 16 KB are left.
 * Outside of Gyre's scheduler, calls {#write}.
 * @param string [String]
 * @return [self]
 * @raise [TimeoutError, SystemCallError, TLS::Error] as {#write} */
static VALUE object_append(VALUE self, VALUE string) {
  struct gyre_scheduler *scheduler = gyre_socket_scheduler();
  if (!scheduler) {
    object_write(1, &string, self);
    return self;
  }
  struct gyre_transport_object *object = append(self, string, scheduler);
  if (gyre_bytes_held(object->transport.output) > HIGH_WATER) flush(self, object, gyre_transport_flush, LOW_WATER);
  return self;
}

/* Queues a string in a Gyre scheduler. Never waits: the caller must limit unsent bytes.
 * @param string [String]
 * @return [self]
 * @raise [SystemCallError] the write side has ended or failed */
static VALUE object_send_soon(VALUE self, VALUE string) {
  (void)append(self, string, gyre_scheduler_current());
  return self;
}

/* Cancels the send at the turn's end: the queue waits for another call that sends.
 * @return [self] */
static VALUE object_hold(VALUE self) {
  struct gyre_transport_object *object = gyre_transport_object_get(self);
  if (object->sends) gyre_deferred_send_stop(object->sends);
  return self;
}

/* Waits until all bytes are sent.
 * @return [self]
 * @raise [TimeoutError, SystemCallError, TLS::Error] as {#write} */
static VALUE object_flush(VALUE self) {
  flush(self, gyre_transport_object_get(self), gyre_transport_flush, 0);
  return self;
}

/* --- a file is one message --- */

struct file_sending {
  VALUE self, file;
  int64_t from;
  uint64_t size, moved;
  bool whole;
};

static VALUE send_pieces_of_file(VALUE argument) {
  struct file_sending *sending = (struct file_sending *)argument;
  struct gyre_transport_object *object = gyre_transport_object_get(sending->self);
  while (sending->moved < sending->size) {
    uint64_t left = sending->size - sending->moved;
    ssize_t count = gyre_transport_sendfile(&object->transport, rb_io_descriptor(sending->file),
                                            sending->from + (int64_t)sending->moved,
                                            left < FILE_PIECE_BYTES ? (size_t)left : FILE_PIECE_BYTES);
    if (count == 0) break;
    if (count > 0) {
      sending->moved += (uint64_t)count;
      object->file_bytes += (uint64_t)count;
      gyre_socket_give_way();
      object = gyre_transport_object_get(sending->self);
    } else if (count == -EAGAIN) {
      object = wait_for(sending->self, object, &object->transport.write, object->write_timeout, Qnil, "send to");
    } else {
      gyre_transport_object_fail(object, (int)count, "send to");
    }
  }
  sending->whole = true;
  return Qnil;
}

static VALUE end_file(VALUE argument) {
  struct file_sending *sending = (struct file_sending *)argument;
  struct gyre_transport *transport = gyre_transport_of(sending->self);
  transport->occupied = false;
  if (!sending->whole && sending->moved) cut(transport, -ECONNABORTED);
  return Qnil;
}

static VALUE send_file(VALUE argument) {
  struct file_sending *sending = (struct file_sending *)argument;
  struct gyre_transport_object *object = gyre_transport_object_get(sending->self);
  int error;
  while ((error = gyre_transport_flush(&object->transport)) == -EAGAIN)
    object = wait_for(sending->self, object, &object->transport.write, object->write_timeout, Qnil, "send to");
  if (error < 0) gyre_transport_object_fail(object, error, "send to");
  object->transport.occupied = true;
  return rb_ensure(send_pieces_of_file, argument, end_file, argument);
}

/* Sends a file's bytes as one message, if possible by sendfile(2). If an exception (a timeout, a
 * stop) truncates the message, later writes raise ECONNABORTED.
 * @param file [IO] a regular file; its position is unused
 * @param offset [Integer] bytes
 * @param length [Integer] bytes
 * @return [Integer] bytes; fewer only if the file ends
 * @raise [TimeoutError, SystemCallError, TLS::Error] as {#write} */
static VALUE object_write_file(VALUE self, VALUE file, VALUE offset, VALUE length) {
  int64_t from = NUM2LL(offset), size = NUM2LL(length);
  if (from < 0) rb_raise(rb_eArgError, "negative offset %" PRId64 " given", from);
  if (size < 0) rb_raise(rb_eArgError, "negative length %" PRId64 " given", size);
  struct file_sending sending = {.self = self, .from = from, .size = (uint64_t)size};
  sending.file = rb_io_get_io(file);
  struct gyre_transport_object *object = gyre_transport_object_get(self);
  object->writers++;
  in_turn(self, true, send_file, &sending);
  object->writers--;
  flush(self, gyre_transport_object_get(self), gyre_transport_flush, 0);
  RB_GC_GUARD(sending.file);
  return ULL2NUM(sending.moved);
}

/* Sends the queue, then ends the stream. Reading continues.
 * @return [nil]
 * @raise [TimeoutError, SystemCallError, TLS::Error] as {#write} */
static VALUE object_close_write(VALUE self) {
  flush(self, gyre_transport_object_get(self), gyre_transport_end, 0);
  return Qnil;
}

/* --- life --- */

/* @param io [Socket] connected
 * @param peer [String] its address, for messages */
static VALUE object_initialize(VALUE self, VALUE io, VALUE peer) {
  struct gyre_transport_object *object = peek(self);
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

/* Closes the socket without sending the queue or TLS's close_notify. Used in a forked child, or to
 * show the peer that the stream is truncated.
 * @return [nil] */
static VALUE object_abandon(VALUE self) {
  struct gyre_transport_object *object = peek(self);
  if (NIL_P(object->io)) return Qnil;
  if (object->sends) {
    gyre_deferred_send_check(object->sends);
    gyre_deferred_send_stop(object->sends);
  }
  rb_funcall(object->io, rb_intern("close"), 0); /* rb_io_close would not wake waiting calls */
  gyre_transport_free(&object->transport);
  object->transport.fd = -1;
  return Qnil;
}

/* @api private True if a writer waits, or an exception has ended its wait. */
static VALUE object_stuck_p(VALUE self) { return peek(self)->writers ? Qtrue : Qfalse; }

/* @return [Socket] */
static VALUE object_io(VALUE self) { return peek(self)->io; }
/* @return [String] the peer's address, for messages */
static VALUE object_peer(VALUE self) { return peek(self)->peer; }

static VALUE set_timeout(VALUE self, VALUE *place, VALUE seconds) {
  (void)gyre_duration_ns(seconds); /* checks it */
  RB_OBJ_WRITE(self, place, seconds);
  return seconds;
}

/* @return [Numeric, nil] seconds that a read waits for a byte or its turn; nil: no limit */
static VALUE object_read_timeout(VALUE self) { return peek(self)->read_timeout; }

/* @param seconds [Numeric, nil] see {#read_timeout_s} */
static VALUE object_set_read_timeout(VALUE self, VALUE seconds) {
  return set_timeout(self, &peek(self)->read_timeout, seconds);
}

/* @return [Numeric, nil] seconds that a write waits for progress or its turn; nil: no limit */
static VALUE object_write_timeout(VALUE self) { return peek(self)->write_timeout; }

/* @param seconds [Numeric, nil] see {#write_timeout_s} */
static VALUE object_set_write_timeout(VALUE self, VALUE seconds) {
  return set_timeout(self, &peek(self)->write_timeout, seconds);
}

/* @return [Boolean] whether the transport uses TLS */
static VALUE object_tls_p(VALUE self) {
  return peek(self)->transport.operations == &gyre_transport_plain ? Qfalse : Qtrue;
}

#ifdef GYRE_HAVE_LIBSSL
/* @api private */
static VALUE object_begin_tls(VALUE self, VALUE context, VALUE name) {
  const char *text = NIL_P(name) ? NULL : StringValueCStr(name);
  struct gyre_transport_object *object = gyre_transport_object_get(self);
  if (object->transport.operations != &gyre_transport_plain) rb_raise(rb_eRuntimeError, "TLS has begun already");
  if (object->transport.occupied) rb_raise(rb_eRuntimeError, "TLS cannot begin within a file that is being sent");
  int error = gyre_tls_start(&object->transport, gyre_tls_context_get(context), text, StringValueCStr(object->peer));
  if (error == -EDESTADDRREQ)
    rb_raise(
        rb_eArgError,
        "tls: a client that verifies %" PRIsVALUE " needs the name that is in its certificate: name:", object->peer);
  if (error == -EINVAL) rb_raise(rb_eArgError, "tls: the name of a host has 255 bytes at most, not %zu", strlen(text));
  if (error < 0) rb_memerror();
  RB_GC_GUARD(name);
  return self;
}
#endif

/* @api private Completes the TLS handshake. Waits up to `timeout` seconds. */
static VALUE object_handshake(VALUE self, VALUE timeout) {
  struct gyre_transport_object *object = gyre_transport_object_get(self);
  int64_t duration_ns = gyre_duration_ns(timeout), end_ns = gyre_timers_now() + duration_ns;
  int error;
  object->writers++; /* stays counted after an exception, which leaves the handshake unfinished */
  while ((error = gyre_transport_handshake(&object->transport)) == -EAGAIN) {
    int64_t left_ns = end_ns - gyre_timers_now();
    VALUE left = duration_ns < 0 ? Qnil : DBL2NUM(left_ns > 0 ? (double)left_ns / 1e9 : 0.0);
    object = wait_for(self, object, &object->transport.read, left, timeout, "TLS handshake with");
  }
  object->writers--;
  if (error < 0) gyre_transport_object_fail(object, error, "TLS handshake with");
  return self;
}

void gyre_init_net_transport(void) {
  transport_class = rb_define_class_under(gyre_mGyre, "Transport", rb_cObject);
  rb_define_alloc_func(transport_class, object_allocate);
  rb_define_method(transport_class, "initialize", object_initialize, 2);
  rb_define_method(transport_class, "to_io", object_io, 0);
  rb_define_method(transport_class, "peer", object_peer, 0);
  rb_define_method(transport_class, "read_partial", object_read_partial, -1);
  rb_define_method(transport_class, "read", object_read, -1);
  rb_define_private_method(transport_class, "take_until", object_read_until, 4);
  rb_define_method(transport_class, "write", object_write, -1);
  rb_define_method(transport_class, "<<", object_append, 1);
  rb_define_method(transport_class, "send_soon", object_send_soon, 1);
  rb_define_method(transport_class, "hold", object_hold, 0);
  rb_define_method(transport_class, "flush", object_flush, 0);
  rb_define_method(transport_class, "write_file", object_write_file, 3);
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
