/* Makes a call's value (memcached.h) from replies. Runs no Ruby code: the caller decodes values
 * (memcached_request.c). */
#include "memcached/memcached.h"

static VALUE call_class, reply_class;

void gyre_memcached_call_init(struct gyre_memcached_call *call, VALUE server, enum gyre_memcached_kind kind,
                              const char *command) {
  *call = (struct gyre_memcached_call){.kind = (uint8_t)kind,
                                       .command = command,
                                       .server = server,
                                       .value = Qnil,
                                       .keys = Qnil,
                                       .coded = Qnil,
                                       .error = Qnil,
                                       .owner = Qnil};
}

static void call_mark(void *opaque) {
  const struct gyre_memcached_call *call = opaque;
  GYRE_MARK(call->server, call->value, call->keys, call->coded, call->error);
  if (call->connection) rb_gc_mark(call->connection->self);
}

GYRE_TYPE(call_type, "Gyre::Memcached::Call", call_mark, RUBY_TYPED_DEFAULT_FREE, NULL, RUBY_TYPED_FREE_IMMEDIATELY);

struct gyre_memcached_call *gyre_memcached_call_get(VALUE object) {
  return rb_check_typeddata(object, &call_type);
}

struct gyre_memcached_call *gyre_memcached_call_keep(const struct gyre_memcached_call *call) {
  struct gyre_memcached_call *kept;
  VALUE object = TypedData_Make_Struct(call_class, struct gyre_memcached_call, &call_type, kept);
  *kept = *call;
  kept->owner = object;
  return kept;
}

static VALUE bytes_of(const struct gyre_memcached_reply *reply) {
  if (reply->flags & GYRE_MEMCACHED_UTF8 && !(reply->flags & GYRE_MEMCACHED_CODED))
    return rb_utf8_str_new(reply->data, (long)reply->data_length);
  return rb_str_new(reply->data, (long)reply->data_length);
}

/* Adds a found value; skips a miss. */
static void add_value(struct gyre_memcached_call *call, const struct gyre_memcached_reply *reply, uint32_t index) {
  if (reply->code != GYRE_MEMCACHED_VA) return;
  VALUE key = RARRAY_AREF(call->keys, index);
  VALUE bytes = bytes_of(reply);
  rb_hash_aset(call->value, key, bytes);
  if (!(reply->flags & GYRE_MEMCACHED_CODED)) return;
  if (NIL_P(call->coded)) call->coded = rb_ary_new();
  rb_ary_push(call->coded, key);
  rb_ary_push(call->coded, UINT2NUM(reply->flags));
  rb_ary_push(call->coded, bytes);
}

static VALUE seconds(int64_t value) { return value == INT64_MIN ? Qnil : LL2NUM(value); }

/* Names of enum gyre_memcached_code. */
static ID codes[GYRE_MEMCACHED_ERROR + 1];

/* Makes a Gyre::Memcached::Reply without calling Ruby code. */
static VALUE whole(const struct gyre_memcached_reply *reply) {
  if (!reply_class) reply_class = gyre_kept(rb_path2class("Gyre::Memcached::Reply"));
  VALUE bytes = reply->code == GYRE_MEMCACHED_VA ? bytes_of(reply) : Qnil;
  return rb_struct_new(reply_class, ID2SYM(codes[reply->code]), bytes, UINT2NUM(reply->flags), ULL2NUM(reply->cas),
                       seconds(reply->ttl_s), seconds(reply->idle_s),
                       reply->hit < 0 ? Qnil
                       : reply->hit   ? Qtrue
                                      : Qfalse,
                       reply->won ? Qtrue : Qfalse, reply->stale ? Qtrue : Qfalse, reply->lost ? Qtrue : Qfalse);
}

static void add_line(struct gyre_memcached_call *call, const struct gyre_memcached_reply *reply) {
  if (NIL_P(call->value)) call->value = rb_ary_new();
  if (reply->code != GYRE_MEMCACHED_END)
    rb_ary_push(call->value, rb_utf8_str_new(reply->text, (long)reply->text_length));
}

void gyre_memcached_call_take(struct gyre_memcached_call *call, const struct gyre_memcached_reply *reply,
                              uint32_t index) {
  call->code = reply->code;
  if (reply->code >= GYRE_MEMCACHED_SERVER_ERROR) {
    if (NIL_P(call->error)) call->error = rb_utf8_str_new(reply->text, (long)reply->text_length);
    call->refused++;
    return;
  }
  switch (call->kind) {
  case GYRE_MEMCACHED_GET:
    call->flags = reply->flags;
    if (reply->code == GYRE_MEMCACHED_VA) call->value = bytes_of(reply);
    break;
  case GYRE_MEMCACHED_SET: call->cas = reply->cas; break;
  case GYRE_MEMCACHED_DELETE: break;
  case GYRE_MEMCACHED_WHOLE: call->value = whole(reply); break;
  case GYRE_MEMCACHED_LINES: add_line(call, reply); break;
  case GYRE_MEMCACHED_VALUES: add_value(call, reply, index); break;
  default:
    if (reply->code != GYRE_MEMCACHED_HD && reply->code != GYRE_MEMCACHED_MN) call->refused++;
    break;
  }
}

void gyre_init_memcached_call(void) {
  call_class = gyre_class(rb_define_module_under(gyre_mGyre, "Memcached"), "Call", NULL);
  static const char *names[] = {"hd", "en", "nf", "ns", "ex", "va", "mn"};
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) codes[i] = rb_intern(names[i]);
}
