/* Gyre::DNS::Zone's records, and Gyre::DNS::Responder, which answers from zones. For
 * lib/gyre/dns/zone_file.rb and server.rb. */
#include "dns/dns.h"

#include <time.h>

static void zone_free(void *zone) { gyre_dns_zone_free(zone); }

GYRE_TYPE(zone_type, "Gyre::DNS::Zone", NULL, zone_free, NULL, RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED);

static struct gyre_dns_zone *get_zone(VALUE self) { return rb_check_typeddata(self, &zone_type); }

static VALUE zone_new(VALUE class, VALUE origin) {
  uint8_t name[GYRE_DNS_NAME_BYTES];
  gyre_dns_name_of(origin, name);
  struct gyre_dns_zone *zone = gyre_dns_zone_new(name);
  if (!zone) rb_memerror();
  return TypedData_Wrap_Struct(class, &zone_type, zone);
}

static VALUE zone_origin(VALUE self) { return gyre_dns_name_string(gyre_dns_zone_origin(get_zone(self))); }

/* Takes a Record's name, type, TTL and data. Raises ArgumentError if the zone may not have it. */
static VALUE zone_add(VALUE self, VALUE name, VALUE type, VALUE ttl, VALUE data) {
  struct gyre_dns_zone *zone = get_zone(self);
  uint8_t owner[GYRE_DNS_NAME_BYTES];
  unsigned number = NUM2UINT(type);
  uint32_t seconds = NUM2UINT(ttl);
  gyre_dns_name_of(name, owner);
  StringValue(data);
  rb_check_frozen(self);
  const uint8_t *bytes = (const uint8_t *)RSTRING_PTR(data);
  size_t length = (size_t)RSTRING_LEN(data);
  if (number > 0xffff || !gyre_dns_data_valid((uint16_t)number, GYRE_DNS_IN, bytes, length))
    rb_raise(rb_eArgError, "malformed data of a record of type %u", number);
  int error = gyre_dns_zone_add(zone, owner, (uint16_t)number, seconds, bytes, length);
  if (error == -ENOMEM) rb_memerror();
  if (error) rb_raise(rb_eArgError, "%" PRIsVALUE " is outside the zone, or has records beside a CNAME", name);
  RB_GC_GUARD(data);
  return self;
}

/* Freezes the zone, which a responder may then read. Raises ArgumentError if the SOA is missing. */
static VALUE zone_finish(VALUE self) {
  rb_check_frozen(self);
  int error = gyre_dns_zone_finish(get_zone(self));
  if (error == -ENOMEM) rb_memerror();
  if (error) rb_raise(rb_eArgError, "the zone has no SOA record at its origin");
  return rb_obj_freeze(self);
}

GYRE_MARKER(responder_mark, struct gyre_dns_responder_object, own->zones, own->rules, own->networks)

static void responder_free(void *opaque) {
  struct gyre_dns_responder_object *object = opaque;
  free(object->responder.zones);
  free(object->responder.buckets);
  xfree(object);
}

GYRE_TYPE(responder_type, "Gyre::DNS::Responder", responder_mark, responder_free, NULL,
          RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED);

struct gyre_dns_responder_object *gyre_dns_responder_get(VALUE self) {
  return rb_check_typeddata(self, &responder_type);
}

static uint8_t secret[16];

/* Hashes up to 32 bytes with a secret, because programs may show hashes without it: String#hash. */
static uint64_t hash(const void *bytes, size_t length) {
  uint8_t input[sizeof(secret) + 32];
  memcpy(input, secret, sizeof(secret));
  memcpy(input + sizeof(secret), bytes, length);
  return rb_memhash(input, (long)(sizeof(secret) + length));
}

/* `rate_limit`: maximum responses a second to a network; 0: no limit. */
static VALUE responder_new(VALUE class, VALUE rate_limit) {
  struct gyre_dns_responder_object *object;
  uint32_t limit = NUM2UINT(rate_limit);
  VALUE self = TypedData_Make_Struct(class, struct gyre_dns_responder_object, &responder_type, object);
  object->zones = object->rules = object->networks = Qnil;
  object->responder.hash = hash;
  object->responder.rate_limit = limit;
  if (limit && !(object->responder.buckets = calloc(GYRE_DNS_NETWORKS, sizeof(*object->responder.buckets))))
    rb_memerror();
  return self;
}

/* @param zones [Array<Zone>] complete zones
 * @param rules [#call, nil] called with a Transaction; returns the response, or nil if plain
 * @param networks [String] networks of clients that have recursion, see respond.h; optional */
static VALUE responder_use(int count_given, VALUE *given, VALUE self) {
  struct gyre_dns_responder_object *object = gyre_dns_responder_get(self);
  VALUE zones, rules, networks;
  rb_scan_args(count_given, given, "21", &zones, &rules, &networks);
  networks = NIL_P(networks) ? rb_str_new(NULL, 0) : rb_str_new_frozen(StringValue(networks));
  zones = rb_ary_freeze(rb_ary_dup(rb_convert_type(zones, T_ARRAY, "Array", "to_ary")));
  size_t count = (size_t)RARRAY_LEN(zones);
  for (size_t i = 0; i < count; i++) {
    VALUE zone = RARRAY_AREF(zones, (long)i);
    if (!rb_typeddata_is_kind_of(zone, &zone_type) || !OBJ_FROZEN(zone))
      rb_raise(rb_eArgError, "a zone is not complete");
  }
  size_t places = 2;
  while (places < 2 * count) places *= 2;
  const struct gyre_dns_zone **table = calloc(places, sizeof(*table));
  if (!table) rb_memerror();
  free(object->responder.zones);
  object->responder.zones = table;
  object->responder.zone_places = places;
  object->responder.zone_count = object->responder.zone_labels = 0;
  for (size_t i = 0; i < count; i++) gyre_dns_responder_add(&object->responder, get_zone(RARRAY_AREF(zones, (long)i)));
  object->responder.has_rules = !NIL_P(rules);
  object->responder.networks = (const uint8_t *)RSTRING_PTR(networks);
  object->responder.network_count = (size_t)RSTRING_LEN(networks) / GYRE_DNS_NETWORK_BYTES;
  RB_OBJ_WRITE(self, &object->networks, networks);
  RB_OBJ_WRITE(self, &object->zones, zones);
  RB_OBJ_WRITE(self, &object->rules, rules);
  return self;
}

/* Returns the response to a request over a stream or HTTPS: a String, nil if nothing is sent, or a
 * Transaction for rules. `sockaddr`: the sender's address. */
static VALUE responder_respond(VALUE self, VALUE bytes, VALUE sockaddr) {
  static _Thread_local uint8_t to[GYRE_DNS_MESSAGE_BYTES];
  struct gyre_dns_responder_object *object = gyre_dns_responder_get(self);
  struct gyre_datagram_address from = {.any = {.sa_family = AF_UNSPEC}};
  struct gyre_dns_manner manner;
  size_t length = 0;
  StringValue(bytes);
  StringValue(sockaddr);
  if ((size_t)RSTRING_LEN(sockaddr) <= sizeof(from.path)) {
    from.length = (socklen_t)RSTRING_LEN(sockaddr);
    memcpy(&from.any, RSTRING_PTR(sockaddr), from.length);
  }
  struct gyre_dns_request request = {.bytes = (const uint8_t *)RSTRING_PTR(bytes),
                                     .length = (size_t)RSTRING_LEN(bytes),
                                     .from = &from.any,
                                     .stream = true,
                                     .now_s = (uint32_t)time(NULL)};
  enum gyre_dns_action action = gyre_dns_respond(&object->responder, &request, &manner, to, &length);
  VALUE response = Qnil;
  if (action == GYRE_DNS_ASK) response = gyre_dns_transaction_new(object->rules, &request, &manner, &from, Qnil, NULL);
  if (action == GYRE_DNS_REPLY) response = rb_str_new((const char *)to, (long)length);
  RB_GC_GUARD(bytes);
  return response;
}

static VALUE responder_counts(VALUE self) {
  const struct gyre_dns_counts *counts = &gyre_dns_responder_get(self)->responder.counts;
  VALUE hash = rb_hash_new();
#define COUNTER(name) rb_hash_aset(hash, ID2SYM(rb_intern(#name)), ULL2NUM(counts->name));
  GYRE_DNS_COUNTERS(COUNTER)
  return hash;
}

/* Counts a request beyond the limits. */
static VALUE responder_overload(VALUE self) {
  gyre_dns_responder_get(self)->responder.counts.overload++;
  return Qnil;
}

void gyre_init_dns_zone(void) {
  VALUE random = rb_funcall(rb_cRandom, rb_intern("urandom"), 1, INT2FIX(sizeof(secret)));
  memcpy(secret, RSTRING_PTR(random), sizeof(secret));
  RB_GC_GUARD(random);
  VALUE zone_class = gyre_class(gyre_mDNS, "Zone", NULL);
  rb_define_singleton_method(zone_class, "new", zone_new, 1);
  rb_define_method(zone_class, "origin", zone_origin, 0);
  rb_define_method(zone_class, "add", zone_add, 4);
  rb_define_method(zone_class, "finish", zone_finish, 0);
  VALUE responder_class = gyre_class(gyre_mDNS, "Responder", NULL);
  rb_define_singleton_method(responder_class, "new", responder_new, 1);
  rb_define_method(responder_class, "use", responder_use, -1);
  rb_define_method(responder_class, "respond", responder_respond, 2);
  rb_define_method(responder_class, "counts", responder_counts, 0);
  rb_define_method(responder_class, "overload", responder_overload, 0);
}
