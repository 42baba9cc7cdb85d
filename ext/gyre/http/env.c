/* Makes a Rack env of a parsed head: copies the acceptor's template and sets the differences (0.28
 * µs; filling a new Hash takes 0.55 to 0.99 µs). Keys of known names are made in advance. Frequent
 * values are shared frozen Strings; others are new BINARY Strings. */
#include "http/exchange.h"
#include "net/net.h"

#include <arpa/inet.h>
#include <ruby/encoding.h>

/* Names of frequent headers. CGI's content-length and content-type have no prefix HTTP_. */
static const char known_names[] =
    "host connection user-agent accept accept-encoding accept-language accept-charset cache-control cookie "
    "content-length content-type authorization referer origin range if-range if-match if-none-match "
    "if-modified-since if-unmodified-since upgrade upgrade-insecure-requests expect te trailer "
    "transfer-encoding via pragma dnt forwarded x-forwarded-for x-forwarded-proto x-forwarded-host "
    "x-forwarded-port x-real-ip x-request-id x-requested-with x-csrf-token priority sec-fetch-site "
    "sec-fetch-mode sec-fetch-dest sec-fetch-user sec-ch-ua sec-ch-ua-mobile sec-ch-ua-platform "
    "sec-websocket-key sec-websocket-version sec-websocket-protocol sec-websocket-extensions last-event-id "
    "save-data purpose traceparent tracestate ";

#define SLOTS 256
#define USUAL_MISSES_LIMIT 8

static struct {
  const char *name;
  size_t length;
  VALUE key;
} slots[SLOTS];

/* FILLED_KEYS are set in one pass (`fill`), OTHER_KEYS one by one. */
#define FILLED_KEYS(KEY)                                                                                               \
  KEY(METHOD, "REQUEST_METHOD")                                                                                        \
  KEY(PROTOCOL, "SERVER_PROTOCOL")                                                                                     \
  KEY(QUERY, "QUERY_STRING")                                                                                           \
  KEY(PATH, "PATH_INFO")                                                                                               \
  KEY(URI, "REQUEST_URI")                                                                                              \
  KEY(SERVER_NAME, "SERVER_NAME")                                                                                      \
  KEY(SERVER_PORT, "SERVER_PORT")                                                                                      \
  KEY(REMOTE, "REMOTE_ADDR")                                                                                           \
  KEY(SCHEME, "rack.url_scheme")                                                                                       \
  KEY(HIJACK, "rack.hijack")                                                                                           \
  KEY(EARLY_HINTS, "rack.early_hints")                                                                                 \
  KEY(FINISHED, "rack.response_finished")                                                                              \
  KEY(AFTER_REPLY, "rack.after_reply")                                                                                 \
  KEY(GONE, "gyre.client_gone")                                                                                        \
  KEY(RESPONSE_TRAILERS, "gyre.response_trailers")
#define OTHER_KEYS(KEY)                                                                                                \
  KEY(HTTPS, "HTTPS")                                                                                                  \
  KEY(HOST, "HTTP_HOST")                                                                                               \
  KEY(COOKIE, "HTTP_COOKIE")                                                                                           \
  KEY(CODING, "HTTP_TRANSFER_ENCODING")                                                                                \
  KEY(INPUT, "rack.input")                                                                                             \
  KEY(TRAILERS, "gyre.trailers")
#define NUMBER(name, text) ENV_##name,
#define TEXT(name, text) text,
enum env_key { FILLED_KEYS(NUMBER) ENV_VALUES, BEFORE_OTHERS = ENV_VALUES - 1, OTHER_KEYS(NUMBER) ENV_KEYS };
_Static_assert(ENV_VALUES <= 16, "gyre_http_env_places.missing has 16 bits");

static VALUE keys[ENV_KEYS];
static VALUE input_class, env_module;

static unsigned slot_of(const char *name, size_t length) {
  unsigned hash = (unsigned)length;
  /* First, middle and last letters distinguish known names. */
  hash = hash * 31 + ((unsigned char)name[0] | 32);
  hash = hash * 31 + ((unsigned char)name[length / 2] | 32);
  hash = hash * 31 + ((unsigned char)name[length - 1] | 32);
  return hash % SLOTS;
}

static VALUE env_key(const char *name, size_t length) {
  char text[5 + GYRE_HTTP_NAME_BYTES_LIMIT];
  size_t at = 0;
  if (!gyre_http_same_name(name, length, "content-type", 12) &&
      !gyre_http_same_name(name, length, "content-length", 14)) {
    memcpy(text, "HTTP_", 5);
    at = 5;
  }
  for (size_t i = 0; i < length && at < sizeof(text); i++, at++) {
    char c = name[i];
    text[at] = c == '-' ? '_' : c >= 'a' && c <= 'z' ? (char)(c - 32) : c;
  }
  return rb_enc_interned_str(text, (long)at, rb_usascii_encoding());
}

/* Sets *known to the slot of a known name, or to -1. */
static VALUE find_key(const char *name, size_t length, int *known) {
  for (unsigned slot = slot_of(name, length); slots[slot].name; slot = (slot + 1) % SLOTS) {
    if (gyre_http_same_name(name, length, slots[slot].name, slots[slot].length)) {
      *known = (int)slot;
      return slots[slot].key;
    }
  }
  *known = -1;
  return env_key(name, length);
}

static VALUE joined(VALUE before, VALUE value, const char *separator) {
  VALUE both = rb_str_dup(before);
  rb_str_cat_cstr(both, separator);
  return rb_str_append(both, value);
}

static void set_fields(VALUE env, const struct gyre_http_head *head, const char *bytes) {
  uint64_t seen[SLOTS / 64] = {0};
  for (unsigned i = 0; i < head->field_count; i++) {
    const struct gyre_http_field *field = &head->fields[i];
    /* x_forwarded_for would pass as x-forwarded-for (CVE-2024-45614). */
    if (field->flags & GYRE_HTTP_FIELD_UNDERSCORE) continue;
    int known;
    VALUE key = find_key(bytes + field->name, field->name_length, &known);
    VALUE value = rb_str_new(bytes + field->value, field->value_length);
    bool first = known >= 0 && !(seen[known / 64] >> (known % 64) & 1);
    if (known >= 0) seen[known / 64] |= UINT64_C(1) << (known % 64);
    /* Looks up only possible duplicates: a look-up costs as much as adding an entry. */
    VALUE before = first ? Qundef : rb_hash_lookup2(env, key, Qundef);
    if (before != Qundef) value = joined(before, value, key == keys[ENV_COOKIE] ? "; " : ", ");
    rb_hash_aset(env, key, value);
  }
}

static VALUE slice(const char *bytes, struct gyre_http_slice part) {
  return rb_str_new(bytes + part.offset, part.length);
}

static VALUE frozen(const char *bytes, struct gyre_http_slice part) { return rb_str_freeze(slice(bytes, part)); }

static VALUE methods[GYRE_HTTP_METHODS];
static VALUE protocols[3], port_80, port_443, value_https, value_on, value_chunked;

static VALUE value_of(const char *text) { return gyre_kept(rb_str_freeze(rb_str_new_cstr(text))); }

static VALUE method_of(const struct gyre_http_head *head, const char *bytes) {
  return head->method_number ? methods[head->method_number] : frozen(bytes, head->method);
}

static void set_server(VALUE env, const struct gyre_http_connection *connection, const struct gyre_http_head *head,
                       const char *bytes) {
  if (!head->authority.length) return;
  VALUE port = connection->https ? port_443 : port_80;
  rb_hash_aset(env, keys[ENV_SERVER_NAME], frozen(bytes, head->host));
  rb_hash_aset(env, keys[ENV_SERVER_PORT], head->port.length ? frozen(bytes, head->port) : port);
}

static VALUE remote_address(struct gyre_http_connection *connection) {
  const struct gyre_peer *peer = &connection->peer;
  char text[INET6_ADDRSTRLEN];
  if (peer->family != AF_INET && peer->family != AF_INET6) return rb_str_new(NULL, 0);
  return rb_str_new_cstr(inet_ntop(peer->family, peer->address, text, sizeof(text)));
}

/* --- the usual peer ---
 *
 * SERVER_NAME, SERVER_PORT and REMOTE_ADDR are kept for the next requests, as clients ask for the
 * same host and proxies come from the same address. */

static bool is_usual(const struct gyre_http_usual *usual, const struct gyre_http_connection *connection,
                     const struct gyre_http_head *head, const char *bytes) {
  return usual->remote && connection->https == usual->https && head->authority.length == usual->authority_length &&
         memcmp(bytes + head->authority.offset, usual->authority, usual->authority_length) == 0 &&
         memcmp(&connection->peer, &usual->peer, sizeof(usual->peer)) == 0;
}

/* Replaces the kept values when several requests in a row had other values. */
static void learn_usual(struct gyre_http_usual *usual, const struct gyre_http_connection *connection,
                        const struct gyre_http_head *head, const char *bytes, VALUE env) {
  if (++usual->misses < USUAL_MISSES_LIMIT) return;
  usual->misses = 0;
  if (head->authority.length == 0 || head->authority.length > sizeof(usual->authority)) return;
  usual->server_name = rb_hash_aref(env, keys[ENV_SERVER_NAME]);
  usual->server_port = rb_hash_aref(env, keys[ENV_SERVER_PORT]);
  usual->remote = rb_hash_aref(env, keys[ENV_REMOTE]);
  usual->authority_length = (uint16_t)head->authority.length;
  memcpy(usual->authority, bytes + head->authority.offset, head->authority.length);
  usual->peer = connection->peer;
  usual->https = connection->https;
}

/* --- what each env sets ---
 *
 * A copy of the template has the entries in the same order. One pass over the copy sets all values;
 * a dozen look-ups would double an env's cost. */

struct filling {
  VALUE env;
  const struct gyre_http_env_places *places;
  const VALUE *values; /* Qundef: unchanged */
  unsigned entry;
};

static int fill_choose(st_data_t key, st_data_t value, st_data_t argument, int error) {
  struct filling *filling = (struct filling *)argument;
  if (filling->entry >= GYRE_HTTP_ENV_PLACES) return ST_STOP;
  int place = filling->places->values[filling->entry++];
  return place >= 0 && filling->values[place] != Qundef ? ST_REPLACE : ST_CONTINUE;
}

static int fill_replace(st_data_t *key, st_data_t *value, st_data_t argument, int existing) {
  struct filling *filling = (struct filling *)argument;
  VALUE new = filling->values[filling->places->values[filling->entry - 1]];
  *value = (st_data_t) new;
  RB_OBJ_WRITTEN(filling->env, Qundef, new);
  return ST_CONTINUE;
}

static void fill(VALUE env, const struct gyre_http_env_places *places, const VALUE *values) {
  struct filling filling = {env, places, values, 0};
  st_foreach_with_replace(RHASH_TBL(env), fill_choose, fill_replace, (st_data_t)&filling);
  for (int i = 0; places->missing && i < ENV_VALUES; i++) {
    if (places->missing & (1u << i) && values[i] != Qundef) rb_hash_aset(env, keys[i], values[i]);
  }
}

static int find_place(VALUE key, VALUE value, VALUE argument) {
  struct filling *filling = (struct filling *)argument;
  struct gyre_http_env_places *places = (struct gyre_http_env_places *)filling->places;
  if (filling->entry >= GYRE_HTTP_ENV_PLACES) return ST_STOP;
  for (int i = 0; i < ENV_VALUES; i++) {
    if (!RTEST(rb_equal(key, keys[i]))) continue;
    places->values[filling->entry] = (int8_t)i;
    places->missing &= (uint16_t) ~(1u << i);
  }
  filling->entry++;
  return ST_CONTINUE;
}

VALUE gyre_http_env(struct gyre_http_exchange *exchange, const struct gyre_http_head *head, const char *bytes) {
  struct gyre_http_connection *connection = exchange->connection;
  struct gyre_http_usual *usual = &connection->acceptor->env.usual;
  bool known = is_usual(usual, connection, head, bytes);
  VALUE self = exchange->handle;

  VALUE values[ENV_VALUES] = {
      [ENV_METHOD] = method_of(head, bytes),
      [ENV_PROTOCOL] = protocols[head->minor_version],
      [ENV_QUERY] = head->has_query ? slice(bytes, head->query) : Qundef,
      [ENV_PATH] = exchange->path = slice(bytes, head->path),
      [ENV_URI] = slice(bytes, head->target),
      [ENV_SERVER_NAME] = known ? usual->server_name : Qundef,
      [ENV_SERVER_PORT] = known ? usual->server_port : Qundef,
      [ENV_REMOTE] = known ? usual->remote : rb_str_freeze(remote_address(connection)),
      [ENV_SCHEME] = connection->https ? value_https : Qundef,
      [ENV_HIJACK] = self,
      [ENV_EARLY_HINTS] = self,
      [ENV_FINISHED] = rb_ary_new(),
      [ENV_AFTER_REPLY] = rb_ary_new(),
      [ENV_GONE] = self,
      [ENV_RESPONSE_TRAILERS] = self,
  };
  VALUE env = rb_hash_dup(connection->acceptor->env.template);
  fill(env, &connection->acceptor->env.places, values);
  if (connection->https) rb_hash_aset(env, keys[ENV_HTTPS], value_on);
  set_fields(env, head, bytes);
  if (known) {
    usual->misses = 0;
  } else {
    set_server(env, connection, head, bytes);
    learn_usual(usual, connection, head, bytes, env);
  }
  if (head->target_form == GYRE_HTTP_TARGET_ABSOLUTE) rb_hash_aset(env, keys[ENV_HOST], slice(bytes, head->authority));

  if (head->minor_version == GYRE_HTTP_VERSION_2) rb_hash_delete(env, keys[ENV_HIJACK]);
  /* Ruby code may run below, and other requests may then overwrite head and bytes. */
  const bool upgrade = head->flags & GYRE_HTTP_HEAD_UPGRADE, nameless = !head->authority.length;
  const bool chunked = head->flags & GYRE_HTTP_HEAD_CHUNKED, body = chunked || head->content_length > 0;
  /* Frameworks read a body without a length only if it is chunked. */
  if (chunked && head->minor_version == GYRE_HTTP_VERSION_2 && head->content_length < 0 &&
      head->method_number != GYRE_HTTP_METHOD_CONNECT)
    rb_hash_aset(env, keys[ENV_CODING], value_chunked);
  if (upgrade) rb_funcall(env_module, rb_intern("offer"), 1, env);
  if (nameless) rb_funcall(env_module, rb_intern("own_address"), 2, env, INT2NUM(connection->transport.fd));
  if (body) rb_hash_aset(env, keys[ENV_INPUT], rb_funcall(input_class, rb_intern("new"), 1, self));
  if (chunked) rb_hash_aset(env, keys[ENV_TRAILERS], rb_obj_method(self, ID2SYM(rb_intern("trailers"))));
  VALUE certificate = connection->https ? gyre_net_peer_certificate(&connection->transport) : Qundef;
  if (certificate != Qundef) rb_funcall(env_module, rb_intern("client_certificate"), 2, env, certificate);
  return env;
}

VALUE gyre_http_refused_env(struct gyre_http_connection *connection, const struct gyre_http_request *request) {
  const struct gyre_http_head *head = request->head;
  const char *bytes = request->bytes;
  VALUE env = rb_hash_new();
  rb_hash_aset(env, keys[ENV_REMOTE], remote_address(connection));
  if (!head) return env;
  if (head->method.length) rb_hash_aset(env, keys[ENV_METHOD], method_of(head, bytes));
  if (head->target.length) rb_hash_aset(env, keys[ENV_URI], slice(bytes, head->target));
  if (head->section > head->target.offset) /* the request line is complete */
    rb_hash_aset(env, keys[ENV_PROTOCOL], protocols[head->minor_version]);
  return env;
}

/* Makes a Hash {lower-case name => value} of trailers or of a response's fields. Joins the values
 * of fields with the same name. set-cookie becomes an Array, because its values may have commas
 * (RFC 9110, section 5.3). */
VALUE gyre_http_field_hash(const struct gyre_http_head *head, const char *bytes) {
  VALUE hash = rb_hash_new();
  for (unsigned i = 0; i < head->field_count; i++) {
    const struct gyre_http_field *field = &head->fields[i];
    char text[GYRE_HTTP_NAME_BYTES_LIMIT];
    for (unsigned at = 0; at < field->name_length; at++) {
      char c = bytes[field->name + at];
      text[at] = c >= 'A' && c <= 'Z' ? (char)(c | 32) : c;
    }
    VALUE name = rb_enc_interned_str(text, field->name_length, rb_usascii_encoding());
    VALUE value = rb_str_new(bytes + field->value, field->value_length);
    bool cookie = field->name_length == 10 && memcmp(text, "set-cookie", 10) == 0;
    VALUE before = rb_hash_lookup2(hash, name, Qundef);
    if (before == Qundef) {
      rb_hash_aset(hash, name, cookie ? rb_ary_new_from_args(1, value) : value);
    } else if (cookie) {
      rb_ary_push(before, value);
    } else {
      rb_hash_aset(hash, name, joined(before, value, ", "));
    }
  }
  return hash;
}

void gyre_http_check_request(VALUE method, VALUE target) {
  Check_Type(method, T_STRING);
  Check_Type(target, T_STRING);
  if (!gyre_http_is_name(RSTRING_PTR(method), (size_t)RSTRING_LEN(method)))
    rb_raise(rb_eArgError, "%+" PRIsVALUE " is not an HTTP method", method);
  const char *bytes = RSTRING_PTR(target);
  bool valid = RSTRING_LEN(target) > 0;
  for (long i = 0; i < RSTRING_LEN(target); i++) valid &= bytes[i] > 0x20 && bytes[i] < 0x7f;
  if (!valid) rb_raise(rb_eArgError, "%+" PRIsVALUE " is not the target of a request: escape it first", target);
}

static void check_value(VALUE name, VALUE value) {
  if (!RB_TYPE_P(value, T_STRING))
    rb_raise(rb_eArgError, "header %" PRIsVALUE ": must be a String, not %" PRIsVALUE, name, rb_obj_class(value));
  if (!gyre_http_is_value(RSTRING_PTR(value), (size_t)RSTRING_LEN(value)))
    rb_raise(rb_eArgError, "header %" PRIsVALUE ": its value has a control byte", name);
}

int gyre_http_check_field(VALUE name, VALUE value, VALUE unused) {
  if (!RB_TYPE_P(name, T_STRING) || !gyre_http_is_name(RSTRING_PTR(name), (size_t)RSTRING_LEN(name)))
    rb_raise(rb_eArgError, "%+" PRIsVALUE " is not the name of a header", name);
  if (!RB_TYPE_P(value, T_ARRAY)) check_value(name, value);
  for (long i = 0; RB_TYPE_P(value, T_ARRAY) && i < RARRAY_LEN(value); i++) check_value(name, RARRAY_AREF(value, i));
  return ST_CONTINUE;
}

/* Packs a response's fields in a String: their number, the fields, the text. Makes no Hash yet,
 * because most callers read at most one field. If the body is encoded, returns the Hash at once. */
VALUE gyre_http_pack_fields(const struct gyre_http_head *head, const char *bytes, size_t length) {
  uint32_t count = head->field_count;
  for (uint32_t i = 0; i < count; i++) {
    const struct gyre_http_field *field = &head->fields[i];
    if (gyre_http_same_name(bytes + field->name, field->name_length, "content-encoding", 16))
      return gyre_http_field_hash(head, bytes);
  }
  const size_t fields_bytes = count * sizeof(*head->fields);
  VALUE packed = rb_str_new(NULL, (long)(sizeof(count) + fields_bytes + length));
  char *to = RSTRING_PTR(packed);
  memcpy(to, &count, sizeof(count));
  memcpy(to + sizeof(count), head->fields, fields_bytes);
  memcpy(to + sizeof(count) + fields_bytes, bytes, length);
  return packed;
}

/* Returns the Hash of a packed String. Returns any other object unchanged. Checks the String,
 * because Ruby code may have made it. */
VALUE gyre_http_unpack_fields(VALUE packed) {
  if (!RB_TYPE_P(packed, T_STRING)) return packed;
  const char *bytes = RSTRING_PTR(packed);
  size_t length = (size_t)RSTRING_LEN(packed);
  uint32_t count = 0;
  if (length >= sizeof(count)) memcpy(&count, bytes, sizeof(count));
  const size_t text = sizeof(count) + (size_t)count * sizeof(struct gyre_http_field);
  struct gyre_http_head head = {.fields = (struct gyre_http_field *)(bytes + sizeof(count)),
                                .field_count = (uint16_t)count};
  bool valid = count <= UINT16_MAX && length >= text;
  for (uint32_t i = 0; valid && i < count; i++) {
    const struct gyre_http_field *field = &head.fields[i];
    valid = field->name_length <= GYRE_HTTP_NAME_BYTES_LIMIT && text + field->name + field->name_length <= length &&
            text + field->value + field->value_length <= length;
  }
  if (!valid) rb_raise(rb_eArgError, "not the fields of a response");
  VALUE hash = gyre_http_field_hash(&head, bytes + text);
  RB_GC_GUARD(packed);
  return hash;
}

static VALUE constant(const char *text) {
  return gyre_kept(rb_enc_interned_str(text, (long)strlen(text), rb_usascii_encoding()));
}

void gyre_init_http_env(void) {
  static const char *const names[ENV_KEYS] = {FILLED_KEYS(TEXT) OTHER_KEYS(TEXT)};
  for (int i = 0; i < ENV_KEYS; i++) keys[i] = constant(names[i]);
  for (int i = GYRE_HTTP_METHOD_GET; i < GYRE_HTTP_METHODS; i++) methods[i] = value_of(gyre_http_method_names[i]);
  protocols[0] = value_of("HTTP/1.0");
  protocols[1] = value_of("HTTP/1.1");
  protocols[GYRE_HTTP_VERSION_2] = value_of("HTTP/2.0");
  port_80 = value_of("80");
  port_443 = value_of("443");
  value_https = value_of("https");
  value_on = value_of("on");
  value_chunked = value_of("chunked");
  for (const char *name = known_names, *end; (end = strchr(name, ' ')); name = end + 1) {
    size_t length = (size_t)(end - name);
    unsigned slot = slot_of(name, length);
    while (slots[slot].name) slot = (slot + 1) % SLOTS;
    slots[slot].name = name;
    slots[slot].length = length;
    slots[slot].key = gyre_kept(env_key(name, length));
  }
}

/* Fills env.places from the template. The first call also looks up classes of Gyre. */
void gyre_http_env_prepare(struct gyre_http_acceptor *acceptor) {
  struct filling filling = {Qnil, &acceptor->env.places, NULL, 0};
  memset(acceptor->env.places.values, -1, sizeof(acceptor->env.places.values));
  acceptor->env.places.missing = ((1u << ENV_VALUES) - 1) & ~(1u << ENV_EARLY_HINTS); /* optional */
  rb_hash_foreach(acceptor->env.template, find_place, (VALUE)&filling);
  if (input_class) return;
  input_class = gyre_kept(rb_path2class("Gyre::HTTP::Input"));
  env_module = gyre_kept(rb_path2class("Gyre::HTTP::Env"));
}
