/* Reads limits by tables (limit_rows.h). */
#include "http/limit_rows.h"
#include "fiber/scheduler.h"

static void set_time(void *field, size_t size, VALUE duration) {
  const int64_t ns = gyre_duration_ns(duration);
  const float inexact = (float)ns;
  if (size == sizeof(ns))
    memcpy(field, &ns, size);
  else
    memcpy(field, &inexact, size);
}

static void set_number(void *field, size_t size, VALUE number, uint64_t most) {
  const uint64_t wide = size == 8 ? INT64_MAX : size == 4 ? UINT32_MAX : UINT16_MAX;
  uint64_t value = NIL_P(number) ? 0 : NUM2ULL(number);
  if (most == 0 || most > wide) most = wide;
  if (value > most) value = most;
  const uint32_t half = (uint32_t)value;
  const uint16_t quarter = (uint16_t)value;
  memcpy(field, size == 8 ? (const void *)&value : size == 4 ? (const void *)&half : &quarter, size);
}

void gyre_limits_read(const struct gyre_limit_row *rows, size_t count, void *values, VALUE limits) {
  const bool some = RB_TYPE_P(limits, T_HASH);
  for (size_t i = 0; i < count; i++) {
    const ID name = rb_intern(rows[i].name);
    const VALUE value = some ? rb_hash_lookup2(limits, ID2SYM(name), Qundef) : rb_funcall(limits, name, 0);
    if (value == Qundef) continue;
    void *const field = (char *)values + rows[i].offset;
    if (rows[i].time)
      set_time(field, rows[i].size, value);
    else
      set_number(field, rows[i].size, value, rows[i].most);
  }
}
