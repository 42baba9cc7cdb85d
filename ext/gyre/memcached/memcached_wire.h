/* memcached's meta protocol (doc/protocol.txt, "Meta Commands"): writes commands into the caller's
 * memory, and parses replies in place. No socket, clock, ruby.h or allocation. */
#pragma once

#include "feature.h"

#define GYRE_MEMCACHED_KEY_BYTES 250 /* maximum bytes of a key as sent, plain or in base64 */
#define GYRE_MEMCACHED_LINE_BYTES 8192
#define GYRE_MEMCACHED_VALUE_BYTES (UINT32_C(1) << 30) /* maximum for memcached's -I */
/* Maximum bytes of a command besides key, value and the caller's flags. */
#define GYRE_MEMCACHED_COMMAND_BYTES 128

enum gyre_memcached_code {
  GYRE_MEMCACHED_HD,
  GYRE_MEMCACHED_EN, /* mg: a miss */
  GYRE_MEMCACHED_NF,
  GYRE_MEMCACHED_NS,
  GYRE_MEMCACHED_EX,
  GYRE_MEMCACHED_VA,
  GYRE_MEMCACHED_MN,
  GYRE_MEMCACHED_OK, /* words of the text protocol begin here */
  GYRE_MEMCACHED_STORED,
  GYRE_MEMCACHED_RESET,
  GYRE_MEMCACHED_VERSION,
  GYRE_MEMCACHED_STAT,
  GYRE_MEMCACHED_END,
  GYRE_MEMCACHED_SERVER_ERROR,
  GYRE_MEMCACHED_CLIENT_ERROR,
  GYRE_MEMCACHED_ERROR,
};

struct gyre_memcached_reply {
  uint8_t code;          /* enum gyre_memcached_code */
  bool won, stale, lost; /* flags W, X and Z */
  int8_t hit;            /* flag h: 0 or 1; -1: missing */
  uint32_t flags;        /* flag f */
  uint64_t cas;          /* flag c */
  int64_t ttl_s, idle_s; /* flags t (-1: no expiry) and l; INT64_MIN: missing */
  const char *text;      /* the line after its first word; of an error, the whole line */
  size_t text_length;
  const char *data; /* value of VA */
  size_t data_length;
};

/* Returns the number of bytes of the reply; 0 if it is incomplete and needs at least `*wanted`
 * bytes; -1 if it is invalid, with the reason in `reply->text`. */
ssize_t gyre_memcached_parse(struct gyre_memcached_reply *reply, const char *bytes, size_t length, size_t *wanted);

enum gyre_memcached_key { GYRE_MEMCACHED_PLAIN, GYRE_MEMCACHED_BASE64, GYRE_MEMCACHED_REFUSED };

/* Returns a key's form: unchanged, or base64 (flag b) if it has control characters, spaces or bytes
 * above 126. Refuses an empty key, and one whose form is too long. */
enum gyre_memcached_key gyre_memcached_key_form(const char *key, size_t length);

/* Writes a command to `to`, which has room for the key in its form and for
 * GYRE_MEMCACHED_COMMAND_BYTES. Returns the command's end. Each of `flags` follows a space. */
char *gyre_memcached_put_command(char *to, const char *verb, const char *key, size_t length,
                                 enum gyre_memcached_key form, const char *flags, size_t flags_length);
/* Writes the line of ms; the caller appends the value and CRLF. */
char *gyre_memcached_put_set(char *to, const char *key, size_t length, enum gyre_memcached_key form,
                             size_t value_length, uint32_t value_flags, int64_t ttl_s, const char *flags,
                             size_t flags_length);
char *gyre_memcached_put_number(char *to, uint64_t number);

/* Bytes of a key in base64. */
static inline size_t gyre_memcached_key_room(size_t length) { return (length + 2) / 3 * 4; }
