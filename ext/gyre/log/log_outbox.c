/* Gyre::Log::Outbox: a log client's records in a growing buffer. Gyre::Log::Client appends from any
 * thread, fiber or signal handler; Gyre::Log::Sender takes them. The GVL makes each call atomic,
 * without a lock. Wakes no thread: append tells its caller to wake the sender.
 *
 *   Outbox.new(service, limit, record_limit, framed)
 *       limit         maximum bytes of records here and of held records; one record always fits
 *       record_limit  maximum bytes of one record
 *       framed        true: refuses records that no frame of the old wire can carry
 *   append(severity, message) → true: stored; nil: stored, wake the sender; false: refused, because
 *       of a limit, attention, a fork or a type. Messages are Strings in UTF-8, US-ASCII or BINARY,
 *       a severity is a String, a Symbol or a number of Logger's (UNKNOWN becomes "fatal", because
 *       servers drop unknown severities).
 *   store(severity, message, beyond_limit) → as append, despite attention; if true, also `limit`
 *   attention=       true: append refuses every record, so that the caller looks for a reason
 *   framed, framed=  as in Outbox.new
 *   take → [String of whole records, last sequence number, count], or nil
 *   await → true: empty, and the next append returns nil;  false: not empty
 *   awake            the next append wakes no sender
 *   held, held=      bytes that the sender has taken, but that still count for `limit`
 *   bytesize         bytes of records here;  sequence: the last number used, 1 for the first record
 *   forked?          true in a forked child;  there reset drops the records, and stay keeps them
 *
 * Methods of the class about taken bytes:
 *
 *   measure(bytes, record_limit) → [bytes of whole, undamaged records at the beginning, their count, last number]
 *   after(bytes, sequence) → offset of the first record with a higher number
 *   frames(bytes) → [the records' frames of the old wire, number of records that no frame can carry]
 *   framed(bytes, n) → offset of the first record whose frame is not wholly in the first n bytes of frames
 */
#include "gyre.h"
#include "log/log_crc32.h"
#include "log/log_record.h"
#include "loop/forks.h"
#include "loop/timers.h"

#include <ruby/encoding.h>

#define FIRST_CAPACITY 4096
#define NAME_LIMIT 255

static int utf8, us_ascii, binary;

struct outbox {
  VALUE service; /* frozen String */
  VALUE batch;   /* String being filled, or 0 */
  VALUE batches; /* Array of full batches: [String, last sequence number, count] */
  char *bytes;   /* bytes of `batch` */
  size_t length, capacity, count;
  size_t first_capacity; /* capacity of the next batch: the length of the last full batch */
  uint64_t sequence;     /* last number used */
  size_t bytesize;       /* bytes of all records here */
  size_t held;           /* bytes that the sender has taken, but that still count for `limit` */
  size_t limit, batch_limit, record_limit;
  unsigned forks; /* differs from gyre_forks in a forked child */
  bool sleeping, attention, framed;
};

/* Pins `batch`, for `bytes`. */
GYRE_MARKER(outbox_mark, struct outbox, own->service, own->batch, own->batches)

GYRE_TYPE(outbox_type, "Gyre::Log::Outbox", outbox_mark, RUBY_DEFAULT_FREE, NULL,
          RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED);

static VALUE outbox_allocate(VALUE klass) {
  struct outbox *outbox;
  return TypedData_Make_Struct(klass, struct outbox, &outbox_type, outbox);
}

static struct outbox *get(VALUE self) {
  struct outbox *outbox = rb_check_typeddata(self, &outbox_type);
  if (!outbox->batches) rb_raise(rb_eRuntimeError, "this outbox was not initialized");
  return outbox;
}

static void empty(struct outbox *outbox) {
  outbox->batch = 0;
  outbox->bytes = NULL;
  outbox->length = outbox->capacity = outbox->count = 0;
  outbox->bytesize = 0;
}

static VALUE outbox_initialize(VALUE self, VALUE service, VALUE limit, VALUE record_limit, VALUE framed) {
  struct outbox *outbox = rb_check_typeddata(self, &outbox_type);
  service = rb_str_new_frozen(StringValue(service));
  if (RSTRING_LEN(service) > NAME_LIMIT) rb_raise(rb_eArgError, "a service's name has at most 255 bytes");
  size_t bytes = NUM2SIZET(limit), record = NUM2SIZET(record_limit);
  RB_OBJ_WRITE(self, &outbox->batches, rb_ary_new());
  RB_OBJ_WRITE(self, &outbox->service, service);
  outbox->limit = bytes;
  outbox->record_limit = record;
  outbox->framed = RTEST(framed);
  outbox->batch_limit = bytes / 16 < FIRST_CAPACITY ? FIRST_CAPACITY : bytes / 16;
  outbox->first_capacity = FIRST_CAPACITY;
  outbox->forks = gyre_forks;
  empty(outbox);
  return self;
}

static void seal(struct outbox *outbox) {
  VALUE batch = outbox->batch;
  rb_str_set_len(batch, (long)outbox->length);
  VALUE entry = rb_ary_new_from_args(3, batch, ULL2NUM(outbox->sequence), SIZET2NUM(outbox->count));
  rb_ary_push(outbox->batches, entry);
  outbox->first_capacity = outbox->length < FIRST_CAPACITY ? FIRST_CAPACITY : outbox->length;
  outbox->batch = 0;
  outbox->bytes = NULL;
  outbox->length = outbox->capacity = outbox->count = 0;
}

static void make_room(VALUE self, struct outbox *outbox, size_t needed) {
  if (outbox->batch && outbox->length > 0 && outbox->length + needed > outbox->batch_limit) seal(outbox);
  if (!outbox->batch) {
    size_t capacity = outbox->first_capacity < needed ? needed : outbox->first_capacity;
    RB_OBJ_WRITE(self, &outbox->batch, rb_str_buf_new((long)capacity));
    outbox->capacity = capacity;
  } else if (outbox->capacity - outbox->length < needed) {
    size_t more = outbox->capacity < needed ? needed : outbox->capacity;
    rb_str_set_len(outbox->batch, (long)outbox->length);
    rb_str_modify_expand(outbox->batch, (long)more);
    outbox->capacity = outbox->length + more;
  }
  outbox->bytes = RSTRING_PTR(outbox->batch);
}

/* Sets the text of a String, a Symbol or a severity number of Logger; otherwise returns false. */
static bool severity_text(VALUE severity, struct gyre_log_text *text) {
  static const char *const names[] = {"debug", "info", "warn", "error", "fatal"};
  if (RB_FIXNUM_P(severity)) {
    long number = FIX2LONG(severity);
    text->bytes = names[number < 0 ? 0 : number > 4 ? 4 : number];
    text->length = strlen(text->bytes);
    return true;
  }
  if (RB_SYMBOL_P(severity)) severity = rb_sym2str(severity);
  if (!RB_TYPE_P(severity, T_STRING)) return false;
  text->bytes = RSTRING_PTR(severity);
  text->length = (size_t)RSTRING_LEN(severity);
  return true;
}

static bool as_it_is(VALUE message) {
  if (!RB_TYPE_P(message, T_STRING)) return false;
  int encoding = rb_enc_get_index(message);
  return encoding == utf8 || encoding == us_ascii || encoding == binary;
}

/* Returns Qtrue if stored, Qnil if stored and the sender must be woken, Qfalse if refused. */
static VALUE store(VALUE self, struct outbox *outbox, VALUE severity_value, VALUE message_value, bool beyond_limit) {
  struct gyre_log_text severity, message;
  if (outbox->forks != gyre_forks || !as_it_is(message_value) || !severity_text(severity_value, &severity))
    return Qfalse;
  struct gyre_log_text service = {RSTRING_PTR(outbox->service), (size_t)RSTRING_LEN(outbox->service)};
  message.length = (size_t)RSTRING_LEN(message_value);
  size_t length = GYRE_LOG_RECORD_HEAD + service.length + severity.length + message.length;
  if (severity.length > NAME_LIMIT || length > outbox->record_limit) return Qfalse;
  if (outbox->framed &&
      (service.length + severity.length + message.length > GYRE_LOG_BATCH_FRAME_LIMIT - GYRE_LOG_BATCH_FRAME_HEAD ||
       memchr(severity.bytes, ':', severity.length)))
    return Qfalse;
  size_t used = outbox->bytesize + outbox->held;
  if (used + length > outbox->limit && used > 0 && !beyond_limit) return Qfalse;
  if (outbox->capacity - outbox->length < length || outbox->length + length > outbox->batch_limit)
    make_room(self, outbox, length);
  /* Sets the pointers again after reserving, because the GC may have moved short Strings. */
  service.bytes = RSTRING_PTR(outbox->service);
  message.bytes = RSTRING_PTR(message_value);
  severity_text(severity_value, &severity);
  gyre_log_record_write(outbox->bytes + outbox->length, ++outbox->sequence,
                        (uint64_t)gyre_clock_ns(CLOCK_REALTIME) / 1000, service, severity, message);
  outbox->length += length;
  outbox->bytesize += length;
  outbox->count++;
  RB_GC_GUARD(severity_value);
  RB_GC_GUARD(message_value);
  if (!outbox->sleeping) return Qtrue;
  outbox->sleeping = false;
  return Qnil;
}

static VALUE outbox_append(VALUE self, VALUE severity, VALUE message) {
  struct outbox *outbox = get(self);
  return outbox->attention ? Qfalse : store(self, outbox, severity, message, false);
}

static VALUE outbox_store(VALUE self, VALUE severity, VALUE message, VALUE beyond_limit) {
  return store(self, get(self), severity, message, RTEST(beyond_limit));
}

static VALUE outbox_take(VALUE self) {
  struct outbox *outbox = get(self);
  if (RARRAY_LEN(outbox->batches) == 0) {
    if (outbox->length == 0) return Qnil;
    seal(outbox);
  }
  VALUE entry = rb_ary_shift(outbox->batches);
  outbox->bytesize -= (size_t)RSTRING_LEN(rb_ary_entry(entry, 0));
  return entry;
}

static VALUE outbox_await(VALUE self) {
  struct outbox *outbox = get(self);
  outbox->sleeping = outbox->bytesize == 0;
  return outbox->sleeping ? Qtrue : Qfalse;
}

static VALUE outbox_awake(VALUE self) {
  get(self)->sleeping = false;
  return Qnil;
}

static VALUE outbox_reset(VALUE self) {
  struct outbox *outbox = get(self);
  empty(outbox);
  rb_ary_clear(outbox->batches);
  outbox->sequence = 0;
  outbox->held = 0;
  outbox->forks = gyre_forks;
  outbox->sleeping = outbox->attention = false;
  return self;
}

/* Keeps the records in a forked child, which goes on as a daemon in the parent's place. */
static VALUE outbox_stay(VALUE self) {
  get(self)->forks = gyre_forks;
  return self;
}

static VALUE outbox_forked(VALUE self) { return get(self)->forks == gyre_forks ? Qfalse : Qtrue; }
static VALUE outbox_bytesize(VALUE self) { return SIZET2NUM(get(self)->bytesize); }
static VALUE outbox_sequence(VALUE self) { return ULL2NUM(get(self)->sequence); }
static VALUE outbox_held(VALUE self) { return SIZET2NUM(get(self)->held); }
static VALUE outbox_framed(VALUE self) { return get(self)->framed ? Qtrue : Qfalse; }

static VALUE outbox_set_framed(VALUE self, VALUE framed) {
  return (get(self)->framed = RTEST(framed)) ? Qtrue : Qfalse;
}

static VALUE outbox_set_held(VALUE self, VALUE bytes) {
  get(self)->held = NUM2SIZET(bytes);
  return bytes;
}

static VALUE outbox_set_attention(VALUE self, VALUE attention) {
  return (get(self)->attention = RTEST(attention)) ? Qtrue : Qfalse;
}

static VALUE batch_measure(VALUE self, VALUE bytes, VALUE limit) {
  StringValue(bytes);
  struct gyre_log_measure measure =
      gyre_log_batch_measure(RSTRING_PTR(bytes), (size_t)RSTRING_LEN(bytes), NUM2SIZET(limit));
  return rb_ary_new_from_args(3, SIZET2NUM(measure.bytes), SIZET2NUM(measure.count), ULL2NUM(measure.last_sequence));
}

static VALUE batch_after(VALUE self, VALUE bytes, VALUE sequence) {
  StringValue(bytes);
  return SIZET2NUM(gyre_log_batch_after(RSTRING_PTR(bytes), (size_t)RSTRING_LEN(bytes), NUM2ULL(sequence)));
}

static VALUE batch_frames(VALUE self, VALUE bytes) {
  size_t dropped;
  StringValue(bytes);
  VALUE frames = rb_str_buf_new(RSTRING_LEN(bytes));
  const size_t length =
      gyre_log_batch_frames(RSTRING_PTR(frames), RSTRING_PTR(bytes), (size_t)RSTRING_LEN(bytes), &dropped);
  rb_str_set_len(frames, (long)length);
  return rb_assoc_new(frames, SIZET2NUM(dropped));
}

static VALUE batch_framed(VALUE self, VALUE bytes, VALUE frames) {
  StringValue(bytes);
  return SIZET2NUM(gyre_log_batch_framed(RSTRING_PTR(bytes), (size_t)RSTRING_LEN(bytes), NUM2SIZET(frames)));
}

void gyre_init_log_outbox(void) {
  utf8 = rb_utf8_encindex();
  us_ascii = rb_usascii_encindex();
  binary = rb_ascii8bit_encindex();
  gyre_log_crc32_setup();
  gyre_forks_count();
  VALUE klass = gyre_class(rb_define_module_under(gyre_mGyre, "Log"), "Outbox", outbox_allocate);
  rb_define_method(klass, "initialize", outbox_initialize, 4);
  rb_define_method(klass, "append", outbox_append, 2);
  rb_define_method(klass, "store", outbox_store, 3);
  rb_define_method(klass, "take", outbox_take, 0);
  rb_define_method(klass, "await", outbox_await, 0);
  rb_define_method(klass, "awake", outbox_awake, 0);
  rb_define_method(klass, "reset", outbox_reset, 0);
  rb_define_method(klass, "forked?", outbox_forked, 0);
  rb_define_method(klass, "stay", outbox_stay, 0);
  rb_define_method(klass, "bytesize", outbox_bytesize, 0);
  rb_define_method(klass, "sequence", outbox_sequence, 0);
  rb_define_method(klass, "held", outbox_held, 0);
  rb_define_method(klass, "held=", outbox_set_held, 1);
  rb_define_method(klass, "framed", outbox_framed, 0);
  rb_define_method(klass, "framed=", outbox_set_framed, 1);
  rb_define_method(klass, "attention=", outbox_set_attention, 1);
  rb_define_singleton_method(klass, "measure", batch_measure, 2);
  rb_define_singleton_method(klass, "after", batch_after, 2);
  rb_define_singleton_method(klass, "frames", batch_frames, 1);
  rb_define_singleton_method(klass, "framed", batch_framed, 2);
}
