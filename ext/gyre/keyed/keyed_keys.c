/* A keyed loop's keys (keyed_loop.h): objects compared like Hash keys. Keys that equal only
 * themselves, as most do, are in a table by address, which calls no methods. */
#include "keyed/keyed_loop.h"

/* True if the key equals only itself. */
static bool by_identity(VALUE key) {
  if (RB_SPECIAL_CONST_P(key)) return !RB_FLOAT_TYPE_P(key);
  if (RB_BUILTIN_TYPE(key) == T_SYMBOL) return true;
  if (RB_BUILTIN_TYPE(key) != T_OBJECT && RB_BUILTIN_TYPE(key) != T_FILE) return false;
  VALUE class = CLASS_OF(key);
  return rb_method_basic_definition_p(class, rb_intern("hash")) &&
         rb_method_basic_definition_p(class, rb_intern("eql?"));
}

struct gyre_keyed_watch *gyre_keyed_find(struct gyre_keyed *keyed, VALUE key) {
  if (by_identity(key)) {
    st_data_t value;
    return st_lookup(keyed->identity, (st_data_t)key, &value) ? (struct gyre_keyed_watch *)value : NULL;
  }
  VALUE value = rb_hash_lookup2(keyed->equality, key, Qfalse);
  return value == Qfalse ? NULL : (struct gyre_keyed_watch *)(value & ~(VALUE)1);
}

/* The Hash has the address as an Integer: structures are aligned, so the last bit is free for the
 * tag. */
static VALUE in_hash(struct gyre_keyed_watch *watch) { return (VALUE)watch | RUBY_FIXNUM_FLAG; }

void gyre_keyed_insert(struct gyre_keyed *keyed, VALUE key, struct gyre_keyed_watch *watch) {
  watch->identity = by_identity(key);
  if (watch->identity) {
    st_insert(keyed->identity, (st_data_t)key, (st_data_t)watch);
  } else {
    rb_hash_aset(keyed->equality, key, in_hash(watch));
  }
}

static int delete_value(VALUE key, VALUE value, VALUE wanted) { return value == wanted ? ST_DELETE : ST_CONTINUE; }

void gyre_keyed_delete(struct gyre_keyed *keyed, VALUE key, struct gyre_keyed_watch *watch) {
  st_data_t identity = (st_data_t)key;
  if (watch->identity) {
    st_delete(keyed->identity, &identity, NULL);
  } else if (rb_hash_lookup2(keyed->equality, key, Qfalse) == in_hash(watch)) {
    rb_hash_delete(keyed->equality, key);
  } else { /* the key has changed meanwhile */
    rb_hash_foreach(keyed->equality, delete_value, in_hash(watch));
  }
}
