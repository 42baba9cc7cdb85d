/* A call of the memcached client, from command to value. memcached_server.c (one key) and
 * memcached_multi.c (many keys) fill it in; memcached_request.c carries it out. */
#pragma once

#include "memcached/memcached.h"

struct gyre_memcached_server {
  VALUE connections; /* Array of connections, one for each home that called */
  VALUE keys;        /* Gyre::Memcached::Keys, which makes full keys; nil: keys are full */
  VALUE prefix;      /* prefix of keys; nil: none; false: it may change, so ask `keys` */
  VALUE values;      /* Gyre::Memcached::Values */
  unsigned failures; /* number of consecutive failures */
  bool raw;          /* values are bytes, stored without flags */
  long direct_bytes; /* maximum bytes of a String that is stored unchanged; -1: no String is */
};

struct gyre_memcached_request {
  VALUE self; /* the Server */
  struct gyre_memcached_server *server;
  struct gyre_memcached_connection *connection;
  VALUE connection_object;
  struct gyre_memcached_call *call, own;
  bool starts;  /* returns a Call at once, and does not wait for its value */
  bool holds;   /* queues without sending */
  bool drops;   /* drops the reply */
  bool stores;  /* its commands have values */
  bool started; /* a Call has started, so `leave` keeps its replies */
  /* Queues all commands. Returns 0, -EPIPE if the connection has failed, or -ENOMEM. */
  int (*put)(struct gyre_memcached_request *request);
  enum gyre_memcached_verb verb;
  enum gyre_memcached_key form;
  char key[GYRE_MEMCACHED_KEY_BYTES]; /* copied: the caller's String may change before the send */
  size_t key_length;
  const char *flags; /* each flag follows a space */
  size_t flags_length;
  VALUE data; /* bytes to store */
  uint32_t data_flags;
  int64_t ttl_s;
  /* The next fields are for many keys. */
  VALUE list;
  long done; /* number of items of `list` whose commands are queued */
  bool full; /* the keys in `list` are full keys */
  long step; /* items of `list` for each quiet command; 0: commands are not quiet */
};

VALUE gyre_memcached_server_allocate(VALUE class);
struct gyre_memcached_server *gyre_memcached_server_get(VALUE self);
/* Returns the connection of the caller's home, or nil. */
VALUE gyre_memcached_connection_here(const struct gyre_memcached_server *server);

void gyre_memcached_request_begin(struct gyre_memcached_request *request, VALUE self, enum gyre_memcached_kind kind,
                                  const char *command);
static inline void gyre_memcached_set_flags(struct gyre_memcached_request *request, const char *flags, size_t length) {
  request->flags = flags;
  request->flags_length = length;
}
/* Carries out the call. Returns its value or, if `starts`, a Gyre::Memcached::Call. */
VALUE gyre_memcached_request_run(struct gyre_memcached_request *request);
/* Waits until the connection has room, or fails. */
void gyre_memcached_wait_for_room(struct gyre_memcached_connection *connection);

/* These set the request's key. plain_key runs no Ruby code; it returns false for a key that needs
 * Ruby code or base64. full_key takes a key that Keys#full has returned. */
bool gyre_memcached_plain_key(struct gyre_memcached_request *request, VALUE key);
void gyre_memcached_callers_key(struct gyre_memcached_request *request, VALUE key);
void gyre_memcached_full_key(struct gyre_memcached_request *request, VALUE key);

/* True if the value can be stored unchanged; then sets data_flags. Runs no Ruby code. */
bool gyre_memcached_direct_value(struct gyre_memcached_request *request, VALUE value);
/* Returns the bytes to store for the value, and sets data_flags. Call after setting the key. */
VALUE gyre_memcached_dump(struct gyre_memcached_request *request, VALUE value);

/* Returns the meta command of a Symbol such as :mg. */
enum gyre_memcached_verb gyre_memcached_verb_of(VALUE name);
/* Queues a command with the request's key and flags, and for ms its data. Returns as `put`. */
int gyre_memcached_put(struct gyre_memcached_request *request);
/* Queues a line; returns as `put`. */
int gyre_memcached_put_line(struct gyre_memcached_request *request, const char *line, size_t length);
