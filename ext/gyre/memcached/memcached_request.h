/* A call of the memcached client, from command to value. memcached_server.c (one key) and
 * memcached_multi.c (many keys) fill it in; memcached_request.c carries it out. */
#pragma once

#include "memcached/memcached.h"

struct gyre_memcached_server {
  VALUE connections; /* connections, one per used home */
  VALUE keys;        /* makes full keys; nil: keys are full */
  VALUE prefix;      /* prefix of keys; nil: none; false: it may change */
  VALUE values;      /* Gyre::Memcached::Values */
  unsigned failures; /* failed commands in a row */
  bool raw;          /* values are bytes, without flags */
  long direct_bytes; /* longest String stored unchanged; -1: none */
};

struct gyre_memcached_request {
  VALUE self; /* the Server */
  struct gyre_memcached_server *server;
  struct gyre_memcached_connection *connection;
  VALUE connection_object;
  struct gyre_memcached_call *call, own;
  bool starts;  /* returns a Call instead of its value */
  bool holds;   /* queues without sending */
  bool drops;   /* drops the reply */
  bool started; /* the call has started */
  /* Queues all commands. Returns 0, -EPIPE if the connection has failed, or -ENOMEM. */
  int (*put)(struct gyre_memcached_request *request);
  enum gyre_memcached_verb verb;
  enum gyre_memcached_key form;
  char key[GYRE_MEMCACHED_KEY_BYTES]; /* a copy, because other code may run first */
  size_t key_length;
  const char *flags; /* each flag follows a space */
  size_t flags_length;
  VALUE data; /* bytes to store */
  uint32_t data_flags;
  int64_t ttl_s;
  /* The next fields are for many keys. */
  VALUE list;
  long done; /* number of items done */
  bool full; /* the list has full keys */
  long step; /* items per command of a quiet group; 0: not quiet */
};

VALUE gyre_memcached_server_allocate(VALUE class);
struct gyre_memcached_server *gyre_memcached_server_get(VALUE self);
/* Returns the home's connection, or nil. */
VALUE gyre_memcached_connection_here(const struct gyre_memcached_server *server);

void gyre_memcached_request_begin(struct gyre_memcached_request *request, VALUE self, enum gyre_memcached_kind kind,
                                  const char *command);
static inline void gyre_memcached_set_flags(struct gyre_memcached_request *request, const char *flags, size_t length) {
  request->flags = flags;
  request->flags_length = length;
}
/* Returns the value, or a Gyre::Memcached::Call. */
VALUE gyre_memcached_request_run(struct gyre_memcached_request *request);
/* Waits until there is room, or the connection fails. */
void gyre_memcached_wait_for_room(struct gyre_memcached_connection *connection);

/* Set the key to send; full_key takes Keys#full's result. plain_key runs no Ruby code and returns
 * false for an unusual key. */
bool gyre_memcached_plain_key(struct gyre_memcached_request *request, VALUE key);
void gyre_memcached_callers_key(struct gyre_memcached_request *request, VALUE key);
void gyre_memcached_full_key(struct gyre_memcached_request *request, VALUE key);

/* True if the value is stored unchanged; sets its flags. Runs no Ruby code. */
bool gyre_memcached_direct_value(struct gyre_memcached_request *request, VALUE value);
/* Returns the value's bytes to store under the set key, and sets their flags. */
VALUE gyre_memcached_dump(struct gyre_memcached_request *request, VALUE value);

/* Returns a meta command, such as mg. */
enum gyre_memcached_verb gyre_memcached_verb_of(VALUE name);
/* Queues a command with key, flags and, for ms, value; returns as `put`. */
int gyre_memcached_put(struct gyre_memcached_request *request);
/* Queues a line; returns as `put`. */
int gyre_memcached_put_line(struct gyre_memcached_request *request, const char *line, size_t length);
