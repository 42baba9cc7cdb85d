/* Gyre::DNS::Transaction: a question for rules, and its response while that is plain (a code and a
 * few addresses). Made by packets_object.c and zone_object.c. lib/gyre/dns/transaction.rb has the
 * other methods, and makes a Message of any other response. */
#include "dns/dns.h"

#include <arpa/inet.h>

#define PLAIN_BYTES 512

enum { FORMERR = 1, SERVFAIL = 2, REFUSED = 5 };

static VALUE transaction_class;

GYRE_MARKER(transaction_mark, struct gyre_dns_transaction, own->rules, own->bytes, own->receiver, own->name)

GYRE_TYPE(transaction_type, "Gyre::DNS::Transaction", transaction_mark, RUBY_DEFAULT_FREE, NULL,
          RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED | GYRE_TYPED_EMBEDDABLE);

struct gyre_dns_transaction *gyre_dns_transaction_get(VALUE self) {
  return rb_check_typeddata(self, &transaction_type);
}

VALUE gyre_dns_transaction_new(VALUE rules, const struct gyre_dns_request *request,
                               const struct gyre_dns_manner *manner, const struct gyre_datagram_address *from,
                               VALUE receiver, const struct gyre_datagram_local *local) {
  struct gyre_dns_transaction *transaction;
  VALUE bytes = rb_obj_freeze(rb_str_new((const char *)request->bytes, (long)request->length)); /* well-formed */
  VALUE self = TypedData_Make_Struct(transaction_class, struct gyre_dns_transaction, &transaction_type, transaction);
  transaction->name = Qnil;
  transaction->manner = *manner;
  transaction->type = manner->type;
  transaction->plain = true;
  if (local) transaction->local = *local;
  transaction->from_length = from->length > sizeof(transaction->from) ? 0 : from->length;
  memcpy(&transaction->from, &from->any, transaction->from_length);
  RB_OBJ_WRITE(self, &transaction->rules, rules);
  RB_OBJ_WRITE(self, &transaction->bytes, bytes);
  RB_OBJ_WRITE(self, &transaction->receiver, receiver);
  return self;
}

VALUE gyre_dns_transaction_call(VALUE self) {
  struct gyre_dns_transaction *transaction = gyre_dns_transaction_get(self);
  VALUE arguments[] = {self, Qtrue};
  bool again = transaction->deferred;
  VALUE response = rb_funcallv(transaction->rules, rb_intern("call"), again ? 2 : 1, arguments);
  return transaction->deferred != again ? Qfalse : response;
}

size_t gyre_dns_transaction_read_name(VALUE self, uint8_t name[GYRE_DNS_NAME_BYTES]) {
  VALUE bytes = gyre_dns_transaction_get(self)->bytes;
  size_t at = GYRE_DNS_HEADER_BYTES;
  return gyre_dns_name_read((const uint8_t *)RSTRING_PTR(bytes), (size_t)RSTRING_LEN(bytes), &at, name);
}

size_t gyre_dns_transaction_write(VALUE self, uint8_t *to) {
  const struct gyre_dns_transaction *transaction = gyre_dns_transaction_get(self);
  const uint8_t *bytes = (const uint8_t *)RSTRING_PTR(transaction->bytes);
  struct gyre_dns_writer writer;
  struct gyre_dns_edns edns = transaction->manner.edns;
  uint8_t name[GYRE_DNS_NAME_BYTES];
  uint16_t counts[4] = {1, 0, 0, 0};
  (void)gyre_dns_transaction_read_name(self, name);
  gyre_dns_writer_init(&writer, to, PLAIN_BYTES);
  (void)gyre_dns_put_question(&writer, name, transaction->type, GYRE_DNS_IN);
  for (unsigned i = 0; i < transaction->count; i++)
    counts[1] += gyre_dns_put_record(&writer, name, transaction->type, GYRE_DNS_IN, transaction->records[i].ttl,
                                     transaction->records[i].data, transaction->type == GYRE_DNS_A ? 4 : 16);
  edns.options = transaction->manner.cookie;
  edns.rcode = (uint8_t)(transaction->rcode >> 4);
  if (edns.present) counts[3] = gyre_dns_put_opt(&writer, &edns);
  bool authoritative = transaction->rcode != FORMERR && transaction->rcode != SERVFAIL && transaction->rcode != REFUSED;
  uint16_t repeated = gyre_dns_16(bytes + 2) & (GYRE_DNS_OPCODE | GYRE_DNS_RD | GYRE_DNS_CD);
  gyre_dns_put_header(&writer, gyre_dns_16(bytes),
                      (uint16_t)(GYRE_DNS_QR | transaction->manner.flags | (authoritative ? GYRE_DNS_AA : 0) |
                                 repeated | (transaction->rcode & GYRE_DNS_RCODE)),
                      counts);
  return writer.length;
}

size_t gyre_dns_transaction_adopt(VALUE self, const char *reply, size_t length, uint8_t *to) {
  const struct gyre_dns_transaction *transaction = gyre_dns_transaction_get(self);
  struct gyre_dns_edns edns = transaction->manner.edns;
  struct gyre_dns_query found;
  struct gyre_dns_writer writer;
  uint8_t name[GYRE_DNS_NAME_BYTES];
  if (gyre_dns_query_read(&found, (const uint8_t *)reply, length) != GYRE_DNS_WELL_FORMED || found.counts[0] != 1 ||
      gyre_dns_transaction_read_name(self, name) != found.question.name_length ||
      found.records_at != GYRE_DNS_HEADER_BYTES + found.question.name_length + 4) /* a compressed name */
    return 0;
  size_t end = found.end, own = edns.present ? 11 + edns.options_length : 0;
  if (found.edns.present) { /* OPT must be the last record */
    if (found.edns.options + found.edns.options_length != (const uint8_t *)reply + end) return 0;
    end = found.opt_at;
    found.counts[3]--;
  }
  found.flags = (found.flags | GYRE_DNS_QR | GYRE_DNS_RA) & (uint16_t)~GYRE_DNS_AA;
  if (end + own > transaction->manner.limit) {
    found.flags |= GYRE_DNS_TC;
    found.counts[1] = found.counts[2] = found.counts[3] = 0;
    end = found.records_at;
  }
  memcpy(to, reply, end);
  memcpy(to + GYRE_DNS_HEADER_BYTES, name, found.question.name_length); /* as the client wrote it */
  gyre_dns_writer_init(&writer, to, end + own);
  writer.length = end;
  edns.options = transaction->manner.cookie;
  edns.rcode = found.edns.present ? found.edns.rcode : 0;
  if (edns.present) found.counts[3] += gyre_dns_put_opt(&writer, &edns);
  gyre_dns_put_header(&writer, gyre_dns_16((const uint8_t *)RSTRING_PTR(transaction->bytes)), found.flags,
                      found.counts);
  return writer.length;
}

/* @param reply [String] an upstream's
 * @return [String, nil] the reply as this question's response; nil: it is unusable */
static VALUE transaction_adopt(VALUE self, VALUE reply) {
  static _Thread_local uint8_t to[GYRE_DNS_MESSAGE_BYTES];
  StringValue(reply);
  size_t length = gyre_dns_transaction_adopt(self, RSTRING_PTR(reply), (size_t)RSTRING_LEN(reply), to);
  RB_GC_GUARD(reply);
  return length ? rb_str_new((const char *)to, (long)length) : Qnil;
}

/* @return [String] the plain response */
static VALUE transaction_encode(VALUE self) {
  uint8_t bytes[PLAIN_BYTES];
  size_t length = gyre_dns_transaction_write(self, bytes);
  return rb_str_new((const char *)bytes, (long)length);
}

/* @return [String] the name asked for, without a final dot */
static VALUE transaction_name(VALUE self) {
  struct gyre_dns_transaction *transaction = gyre_dns_transaction_get(self);
  if (!NIL_P(transaction->name)) return transaction->name;
  uint8_t name[GYRE_DNS_NAME_BYTES];
  (void)gyre_dns_transaction_read_name(self, name);
  VALUE text = gyre_dns_name_string(name);
  RB_OBJ_WRITE(self, &transaction->name, text);
  return text;
}

/* @return [String] the name in lower case */
static VALUE transaction_key(VALUE self) {
  VALUE name = transaction_name(self);
  const char *bytes = RSTRING_PTR(name);
  for (long i = 0; i < RSTRING_LEN(name); i++)
    if (bytes[i] >= 'A' && bytes[i] <= 'Z') return rb_funcall(name, rb_intern("downcase"), 0);
  return name;
}

/* @return [Integer] the type asked for */
static VALUE transaction_type_number(VALUE self) { return INT2FIX(gyre_dns_transaction_get(self)->type); }

/* @return [String] the request, frozen */
static VALUE transaction_bytes(VALUE self) { return gyre_dns_transaction_get(self)->bytes; }

/* @return [Integer] maximum bytes of the response */
static VALUE transaction_limit(VALUE self) { return SIZET2NUM(gyre_dns_transaction_get(self)->manner.limit); }

static VALUE transaction_rules(VALUE self) { return gyre_dns_transaction_get(self)->rules; }

/* @return [String] the sender's struct sockaddr; "": unknown */
static VALUE transaction_sockaddr(VALUE self) {
  const struct gyre_dns_transaction *transaction = gyre_dns_transaction_get(self);
  return rb_str_new((const char *)&transaction->from, (long)transaction->from_length);
}

/* @return [Integer] EDNS flags of the response: DO or 0 */
static VALUE transaction_edns_flags(VALUE self) { return INT2FIX(gyre_dns_transaction_get(self)->manner.edns.flags); }

/* @return [Boolean] whether the question came by UDP and was never deferred, and its response is
 *   plain and empty */
static VALUE transaction_is_deferrable(VALUE self) {
  const struct gyre_dns_transaction *transaction = gyre_dns_transaction_get(self);
  bool empty = transaction->plain && transaction->count == 0;
  return !NIL_P(transaction->receiver) && !transaction->deferred && empty ? Qtrue : Qfalse;
}

/* @return [Boolean] whether the response is plain, not a Message */
static VALUE transaction_is_plain(VALUE self) { return gyre_dns_transaction_get(self)->plain ? Qtrue : Qfalse; }

/* Adds an address to the answers. Returns false if the response needs a Message. */
static VALUE transaction_add_address(VALUE self, VALUE text, VALUE ttl) {
  struct gyre_dns_transaction *transaction = gyre_dns_transaction_get(self);
  unsigned ttl_s = NUM2UINT(ttl); /* may run Ruby code, which may add addresses */
  int family = transaction->type == GYRE_DNS_A ? AF_INET : transaction->type == GYRE_DNS_AAAA ? AF_INET6 : 0;
  if (!family || !RB_TYPE_P(text, T_STRING) || !transaction->plain || transaction->count == GYRE_DNS_PLAIN_RECORDS ||
      inet_pton(family, StringValueCStr(text), transaction->records[transaction->count].data) != 1)
    return Qfalse;
  transaction->records[transaction->count].ttl = ttl_s;
  transaction->count++;
  return Qtrue;
}

/* @param rcode [Integer] response code of the plain response */
static VALUE transaction_set_rcode(VALUE self, VALUE rcode) {
  gyre_dns_transaction_get(self)->rcode = (uint16_t)NUM2UINT(rcode);
  return Qtrue;
}

/* @param rcode [Integer] response code of a response that has no records
 * @return [nil] */
static VALUE transaction_only_code(VALUE self, VALUE rcode) {
  struct gyre_dns_transaction *transaction = gyre_dns_transaction_get(self);
  transaction->plain = true;
  transaction->count = 0;
  transaction_set_rcode(self, rcode);
  return Qnil;
}

/* Ends the plain response: a Message is the response from now on. */
static VALUE transaction_leave(VALUE self) {
  gyre_dns_transaction_get(self)->plain = false;
  return Qnil;
}

/* Replaces the question's name and type. */
static VALUE transaction_ask(VALUE self, VALUE name, VALUE type) {
  struct gyre_dns_transaction *transaction = gyre_dns_transaction_get(self);
  transaction->type = (uint16_t)NUM2UINT(type);
  RB_OBJ_WRITE(self, &transaction->name, name);
  return self;
}

void gyre_init_dns_transaction(void) {
  transaction_class = gyre_class(gyre_mDNS, "Transaction", NULL);
  rb_define_method(transaction_class, "name", transaction_name, 0);
  rb_define_method(transaction_class, "key", transaction_key, 0);
  rb_define_method(transaction_class, "type", transaction_type_number, 0);
  rb_define_method(transaction_class, "bytes", transaction_bytes, 0);
  rb_define_method(transaction_class, "limit", transaction_limit, 0);
  rb_define_method(transaction_class, "sockaddr", transaction_sockaddr, 0);
  rb_define_method(transaction_class, "deferrable?", transaction_is_deferrable, 0);
  rb_define_method(transaction_class, "plain?", transaction_is_plain, 0);
  rb_define_method(transaction_class, "encode", transaction_encode, 0);
  rb_define_method(transaction_class, "adopt", transaction_adopt, 1);
  rb_define_method(transaction_class, "only_code", transaction_only_code, 1);
  rb_define_method(transaction_class, "rules", transaction_rules, 0);
  rb_define_private_method(transaction_class, "edns_flags", transaction_edns_flags, 0);
  rb_define_private_method(transaction_class, "add_address", transaction_add_address, 2);
  rb_define_private_method(transaction_class, "rcode=", transaction_set_rcode, 1);
  rb_define_private_method(transaction_class, "leave", transaction_leave, 0);
  rb_define_private_method(transaction_class, "ask", transaction_ask, 2);
}
