/* Gyre::DNS::Wire: converts DNS messages between bytes and Ruby, for lib/gyre/dns/message.rb. A
 * record's data is a String with uncompressed names. */
#include "dns/dns.h"

#include <inttypes.h>

VALUE gyre_mDNS;
static VALUE question_class, record_class;

enum { NAME, TYPE, CLASS, TTL, DATA }; /* members of Record; Question has the first three */

void gyre_dns_name_of(VALUE text, uint8_t name[GYRE_DNS_NAME_BYTES]) {
  StringValue(text);
  if (gyre_dns_name_parse(RSTRING_PTR(text), (size_t)RSTRING_LEN(text), name) == 0)
    rb_raise(rb_eArgError, "%+" PRIsVALUE " is not a domain name", text);
  RB_GC_GUARD(text);
}

VALUE gyre_dns_name_string(const uint8_t *name) {
  char text[GYRE_DNS_TEXT_BYTES];
  return rb_usascii_str_new(text, (long)gyre_dns_name_text(name, text));
}

/* Returns the name in wire form, uncompressed. Raises ArgumentError if it is invalid. */
static VALUE wire_name(VALUE self, VALUE text) {
  uint8_t name[GYRE_DNS_NAME_BYTES];
  gyre_dns_name_of(text, name);
  return rb_str_new((const char *)name, (long)gyre_dns_name_length(name));
}

/* Returns a name's text, without a final dot. Raises ArgumentError if the bytes are invalid. */
static VALUE wire_text(VALUE self, VALUE bytes) {
  uint8_t name[GYRE_DNS_NAME_BYTES];
  size_t at = 0;
  StringValue(bytes);
  if (gyre_dns_name_read((const uint8_t *)RSTRING_PTR(bytes), (size_t)RSTRING_LEN(bytes), &at, name) == 0)
    rb_raise(rb_eArgError, "%+" PRIsVALUE " is not a domain name", bytes);
  return gyre_dns_name_string(name);
}

/* Returns how long a cache may keep a response: seconds or nil, and whether it is an absence. */
static VALUE wire_lifetime(VALUE self, VALUE bytes) {
  bool negative = false;
  StringValue(bytes);
  int64_t seconds = gyre_dns_lifetime((const uint8_t *)RSTRING_PTR(bytes), (size_t)RSTRING_LEN(bytes), &negative);
  return rb_assoc_new(seconds < 0 ? Qnil : LL2NUM(seconds), negative ? Qtrue : Qfalse);
}

/* Returns a copy of a response whose TTLs are less by these seconds. */
static VALUE wire_age(VALUE self, VALUE bytes, VALUE seconds) {
  uint32_t age_s = NUM2UINT(seconds);
  StringValue(bytes);
  VALUE copy = rb_str_new(RSTRING_PTR(bytes), RSTRING_LEN(bytes));
  gyre_dns_age((uint8_t *)RSTRING_PTR(copy), (size_t)RSTRING_LEN(copy), age_s);
  return copy;
}

/* Memory for a call, used only while no Ruby code, and so no other fiber, can run. */
static _Thread_local uint8_t lent[GYRE_DNS_MESSAGE_BYTES + GYRE_DNS_EXPANDED_BYTES];

struct reading {
  VALUE string;
  size_t at;
};

static const uint8_t *bytes_of(const struct reading *reading) { return (const uint8_t *)RSTRING_PTR(reading->string); }
static size_t length_of(const struct reading *reading) { return (size_t)RSTRING_LEN(reading->string); }

_Noreturn static void fail(const char *part) {
  rb_raise(rb_path2class("Gyre::DNS::FormatError"), "malformed %s", part);
}

static VALUE read_questions(struct reading *reading, unsigned count) {
  VALUE questions = rb_ary_new();
  for (; count; count--) {
    struct gyre_dns_record question;
    if (!gyre_dns_question_read(bytes_of(reading), length_of(reading), &reading->at, &question)) fail("question");
    rb_ary_push(questions, rb_struct_new(question_class, gyre_dns_name_string(question.name), INT2FIX(question.type),
                                         INT2FIX(question.class)));
  }
  return questions;
}

static VALUE read_records(struct reading *reading, unsigned count) {
  VALUE records = rb_ary_new();
  for (; count; count--) {
    struct gyre_dns_record record;
    if (!gyre_dns_record_read(bytes_of(reading), length_of(reading), &reading->at, &record)) fail("record");
    if (record.type == GYRE_DNS_OPT) continue;
    ssize_t length = gyre_dns_data_expand(bytes_of(reading), &record, lent);
    if (length < 0) fail("record data");
    VALUE data = rb_str_new((const char *)lent, length);
    rb_ary_push(records, rb_struct_new(record_class, gyre_dns_name_string(record.name), INT2FIX(record.type),
                                       INT2FIX(record.class), UINT2NUM(gyre_dns_ttl(record.ttl)), data));
  }
  return records;
}

/* Returns id, flags, questions, records of the answer, authority and additional sections, and OPT's
 * bytes from its class on (or nil). Raises FormatError. */
static VALUE wire_parse(VALUE self, VALUE string) {
  struct gyre_dns_query query;
  struct reading reading = {rb_str_new_frozen(StringValue(string)), GYRE_DNS_HEADER_BYTES};
  if (gyre_dns_query_read(&query, bytes_of(&reading), length_of(&reading)) != GYRE_DNS_WELL_FORMED) fail("message");
  VALUE questions = read_questions(&reading, query.counts[0]);
  VALUE sections[3];
  for (int i = 0; i < 3; i++) sections[i] = read_records(&reading, query.counts[i + 1]);
  VALUE opt = Qnil;
  if (query.edns.present) opt = rb_str_new((const char *)query.edns.options - 8, (long)query.edns.options_length + 8);
  RB_GC_GUARD(reading.string);
  return rb_ary_new_from_args(7, INT2FIX(query.id), INT2FIX(query.flags), questions, sections[0], sections[1],
                              sections[2], opt);
}

static uint32_t number_32(VALUE number) {
  if (!RB_INTEGER_TYPE_P(number)) rb_raise(rb_eTypeError, "%+" PRIsVALUE " is not an Integer", number);
  return NUM2UINT(number);
}

static uint16_t number_16(VALUE number) {
  uint32_t value = number_32(number);
  if (value > 0xffff) rb_raise(rb_eArgError, "%" PRIu32 " is more than 65535", value);
  return (uint16_t)value;
}

/* Reads a Record or Question. Returns a record's data; NULL for a question. */
static const uint8_t *read_entry(struct gyre_dns_record *entry, VALUE object, VALUE class) {
  if (!rb_obj_is_kind_of(object, class)) rb_raise(rb_eTypeError, "%+" PRIsVALUE " is not a %" PRIsVALUE, object, class);
  Check_Type(RSTRUCT_GET(object, NAME), T_STRING);
  gyre_dns_name_of(RSTRUCT_GET(object, NAME), entry->name);
  entry->type = number_16(RSTRUCT_GET(object, TYPE));
  entry->class = number_16(RSTRUCT_GET(object, CLASS));
  if (class != record_class) return NULL;
  VALUE data = RSTRUCT_GET(object, DATA);
  Check_Type(data, T_STRING);
  entry->ttl = number_32(RSTRUCT_GET(object, TTL));
  entry->data_length = (size_t)RSTRING_LEN(data);
  if (!gyre_dns_data_valid(entry->type, entry->class, (const uint8_t *)RSTRING_PTR(data), entry->data_length))
    rb_raise(rb_eArgError, "malformed data of a record of type %d", entry->type);
  return (const uint8_t *)RSTRING_PTR(data);
}

/* Writes records until one does not fit. Returns their number. */
static uint16_t put_records(struct gyre_dns_writer *writer, VALUE records) {
  uint16_t count = 0;
  for (long i = 0; i < RARRAY_LEN(records); i++) {
    struct gyre_dns_record entry;
    const uint8_t *data = read_entry(&entry, RARRAY_AREF(records, i), record_class);
    if (!gyre_dns_put_record(writer, entry.name, entry.type, entry.class, entry.ttl, data, entry.data_length)) break;
    count++;
  }
  return count;
}

static size_t length_of_array(VALUE array) {
  Check_Type(array, T_ARRAY);
  return (size_t)RARRAY_LEN(array);
}

/* Writes up to `limit` bytes, with `opt` (a record or nil) last. If answer or authority do not fit,
 * truncates the message and writes no records (RFC 2181, section 9). Omits additional records that
 * do not fit. Raises ArgumentError, TypeError, RangeError. */
static VALUE wire_encode(VALUE self, VALUE id, VALUE flags, VALUE questions, VALUE sections, VALUE opt, VALUE limit) {
  uint16_t number = number_16(id), bits = number_16(flags), counts[4] = {0};
  struct gyre_dns_writer writer;
  struct gyre_dns_record entry, last;
  const uint8_t *options = NULL;
  size_t room = number_32(limit), reserved = 0;
  if (room < GYRE_DNS_HEADER_BYTES || room > GYRE_DNS_MESSAGE_BYTES)
    rb_raise(rb_eArgError, "cannot write %zu bytes", room);
  if (!NIL_P(opt)) {
    options = read_entry(&last, opt, record_class);
    reserved = 11 + last.data_length;
    if (reserved > room - GYRE_DNS_HEADER_BYTES) rb_raise(rb_eArgError, "the EDNS options are too long");
  }
  gyre_dns_writer_init(&writer, lent, room - reserved);
  for (size_t i = 0; i < length_of_array(questions); i++) {
    (void)read_entry(&entry, RARRAY_AREF(questions, (long)i), question_class);
    if (!gyre_dns_put_question(&writer, entry.name, entry.type, entry.class))
      rb_raise(rb_eArgError, "the questions are longer than the message may be");
    counts[0]++;
  }
  struct gyre_dns_writer before = writer;
  for (int i = 0; i < 3; i++) {
    VALUE records = rb_ary_entry(sections, i);
    size_t wanted = length_of_array(records);
    counts[i + 1] = put_records(&writer, records);
    if (counts[i + 1] == wanted || i == 2) continue;
    bits |= GYRE_DNS_TC;
    counts[1] = counts[2] = 0;
    writer = before;
    break;
  }
  writer.room = room;
  if (reserved)
    counts[3] += gyre_dns_put_record(&writer, last.name, last.type, last.class, last.ttl, options, last.data_length);
  gyre_dns_put_header(&writer, number, bits, counts);
  RB_GC_GUARD(opt);
  return rb_str_new((const char *)lent, (long)writer.length);
}

void gyre_init_dns_message(void) {
  gyre_mDNS = rb_define_module_under(gyre_mGyre, "DNS");
  rb_gc_register_mark_object(gyre_mDNS);
  question_class = rb_struct_define_under(gyre_mDNS, "Question", "name", "type", "klass", NULL);
  record_class = rb_struct_define_under(gyre_mDNS, "Record", "name", "type", "klass", "ttl", "data", NULL);
  VALUE wire = rb_define_module_under(gyre_mDNS, "Wire");
  rb_define_module_function(wire, "parse", wire_parse, 1);
  rb_define_module_function(wire, "encode", wire_encode, 6);
  rb_define_module_function(wire, "name", wire_name, 1);
  rb_define_module_function(wire, "text", wire_text, 1);
  rb_define_module_function(wire, "lifetime", wire_lifetime, 1);
  rb_define_module_function(wire, "age", wire_age, 2);
}
